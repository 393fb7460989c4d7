"""Simulations as Spark tasks: one task per run, its trace straight to bronze.

What runs is the simulator's own pure function, so the results are those of local processes.
"""

from __future__ import annotations

import hashlib
import itertools
import pickle
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import BinaryType, LongType, StringType, StructField, StructType

from episub_router.pipeline.lake import Entry, Lake, LakeError
from episub_router.pipeline.reading.files import read_file
from episub_router.pipeline.schemas import RECORD
from episub_router.sim.runner import Job, jobs_for, run
from episub_router.sim.scenario import loading

_JOB = StructType(
    [
        StructField("run", StringType(), False),
        StructField("digest", StringType(), False),
        StructField("scenario", BinaryType(), False),
        StructField("seed", LongType(), False),
    ]
)


def grid(experiment: str, choices: Mapping[str, Sequence[Any]], seeds: int) -> list[Job]:
    """Every variant of the scenario `experiment` with every combination of `choices` (dotted keys
    of settings) and the seeds 1 to `seeds`. Raises ScenarioError."""
    file = loading.load(experiment)
    jobs: list[Job] = []
    for values in itertools.product(*choices.values()):
        settings = dict(zip(choices, values, strict=True))
        varied = [f"{key}={settings[key]}" for key in choices if len(choices[key]) > 1]
        scenarios = {
            " ".join(part for part in (variant, *varied) if part): scenario
            for variant, scenario in file.scenarios(settings).items()
        }
        jobs += jobs_for(scenarios, range(1, seeds + 1))
    return jobs


def parse_choices(assignments: Sequence[str]) -> dict[str, list[Any]]:
    """`key=a,b,c` assignments; commas within brackets and quotes don't part. Raises
    ScenarioError."""
    choices: dict[str, list[Any]] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        values = re.findall(r"(?:\[[^]]*\]|\"[^\"]*\"|[^,])+", text) if equals else []
        settings = [loading.parse_settings([f"{key}{equals}{value}"]) for value in values or [""]]
        choices[key.strip()] = [one[key.strip()] for one in settings]
    return choices


def run_name(job: Job) -> str:
    """The name of the job's run in the lake: scenario, label and seed."""
    label = re.sub(r"[^a-z0-9.=]+", "-", f"{job.scenario.name} {job.label}".lower()).strip("-")
    return f"{label}-{job.seed}"


def sweep(spark: SparkSession, lake: Lake, jobs: Sequence[Job]) -> list[tuple[Job, Entry]]:
    """Run those of `jobs` that `lake` doesn't have yet, and put their traces there; all jobs with
    their entries, whose `result` is the summary that `sim.runner.Result.to_json` gives.

    Raises LakeError where a job's run would be mixed with something else of the same name: with
    other settings that its name doesn't tell, or with traces that were ingested.
    """
    known = {(entry.run, entry.digest): entry for entry in lake.manifest()}
    wanted = [(run_name(job), _digest(job), job) for job in jobs]
    _refuse_mixing([*known, *((name, digest) for name, digest, _ in wanted)], wanted)
    rows = [
        (name, digest, pickle.dumps(job.scenario), job.seed)
        for (name, digest), job in {(name, digest): job for name, digest, job in wanted}.items()
        if (name, digest) not in known
    ]
    if rows:
        tasks = spark.sparkContext.parallelize(rows, len(rows))
        records = spark.createDataFrame(tasks, _JOB).mapInArrow(_run_jobs, RECORD)
        batch = hashlib.sha256("".join(sorted(row[1] for row in rows)).encode()).hexdigest()[:16]
        known |= {(entry.run, entry.digest): entry for entry in lake.add(batch, records)}
    return [(job, known[name, digest]) for name, digest, job in wanted]


def _refuse_mixing(
    there: Sequence[tuple[str, str]], wanted: Sequence[tuple[str, str, Job]]
) -> None:
    contents: dict[str, dict[str, None]] = {}
    for name, digest in there:
        contents.setdefault(name, {})[digest] = None
    for name, _, job in wanted:
        if len(contents[name]) > 1:
            raise LakeError(
                f"run {name} would have more than one content: {job.label or 'the scenario'} with "
                f"seed {job.seed} was run with other settings, or another run has its name; take "
                "another lake"
            )


def _digest(job: Job) -> str:
    return hashlib.sha256(f"{job.scenario!r} {job.seed}".encode()).hexdigest()


def _run_jobs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            with tempfile.TemporaryDirectory() as directory:
                trace = Path(directory, "trace.parquet")
                result = run(pickle.loads(row["scenario"]), row["seed"], trace=trace)
                notes = {"digest": row["digest"], "result": result.to_json()}
                yield from read_file(str(trace), row["run"], row["run"], notes)
