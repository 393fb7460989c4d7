"""Simulations as Spark tasks: one task per run, its trace straight to bronze.

What runs is the simulator's own pure function, so the results are those of local processes.
"""

import hashlib
import itertools
import re
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from episub_router.pipeline.bronze.tasks import Batch, write_records
from episub_router.pipeline.engine import in_tasks
from episub_router.pipeline.lake import SUMMARY, Entry, Lake, LakeError
from episub_router.pipeline.reading.files import read_together
from episub_router.sim.runner import Job, jobs_for, run
from episub_router.sim.scenario import loading

_AT_ONCE = 64
"""Jobs of Spark's, each of one task, that wait for a core."""


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


def sweep(
    spark: SparkSession, lake: Lake, jobs: Sequence[Job], *, summaries_only: bool = False
) -> list[tuple[Job, Entry]]:
    """Run those of `jobs` that `lake` doesn't have yet, and put their traces there; all jobs with
    their entries, whose `result` is the summary that `sim.runner.Result.to_json` gives.

    A run is in the lake as soon as it is done: of an interrupted sweep, nothing is run again but
    what was under way. With `summaries_only`, runs leave no traces. Raises LakeError where a job's
    run would be mixed with something else of the same name: with other settings that its name
    doesn't tell, or with traces that were ingested; SparkError where a run fails.
    """
    known = {(entry.run, entry.digest): entry for entry in lake.manifest()}
    wanted = [(run_name(job), _digest(job), job) for job in jobs]
    _refuse_mixing([*known, *((name, digest) for name, digest, _ in wanted)], wanted)
    todo = {
        (name, digest): job
        for name, digest, job in wanted
        if (there := known.get((name, digest))) is None
        or (there.format == SUMMARY and not summaries_only)
    }

    def perform(name: str, digest: str, job: Job) -> Entry:
        batch = hashlib.sha256(f"{name} {digest}".encode()).hexdigest()[:16]
        common = Batch(batch, lake.stage(batch))
        work = partial(_run_job, name=name, digest=digest, batch=common, traced=not summaries_only)
        (made,) = in_tasks(spark, work, [job])
        (entry,) = lake.commit(batch, [made])
        return entry

    # A Spark job for each, so that each can be committed when it is done.
    pool = ThreadPoolExecutor(_AT_ONCE)
    try:
        under_way = {key: pool.submit(perform, *key, job) for key, job in todo.items()}
        known |= {key: done.result() for key, done in under_way.items()}
    finally:
        pool.shutdown(cancel_futures=True)
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


def _run_job(job: Job, name: str, digest: str, batch: Batch, traced: bool) -> Entry:
    """In a task: run `job` and write its records."""
    if not traced:
        result = run(job.scenario, job.seed).to_json()
        return Entry(batch.name, name, name, digest, 0, SUMMARY, 0, 0, 0, result=result)
    with tempfile.TemporaryDirectory() as directory:
        trace = Path(directory, "trace.parquet")
        done = run(job.scenario, job.seed, trace=trace)
        notes = {"digest": digest, "result": done.to_json()}
        records = read_together([(str(trace), name, notes)], name)
        (entry,), _ = write_records(records, name, "part-00000", batch)
    return entry
