"""One Spark session for all tests here; without Spark they are skipped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from tests.pipeline.simulations import FAULTS, ROUTERS, simulation

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from episub_router.pipeline.lake import Entry, Lake
    from episub_router.sim.runner import Job


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    pytest.importorskip("pyspark")
    from episub_router.pipeline import session

    # Compiling code for each of hundreds of plans takes longer than running them on little data.
    conf = {
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.lightweightPlanChangeValidation": "false",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    started = session.start("local[2]", conf)
    yield started
    started.stop()


@dataclass
class Swept:
    """Simulations with their answers."""

    lake: Lake
    done: list[tuple[Job, Entry]]
    _tables: dict[str, list[Row]] = field(default_factory=dict)

    @property
    def summaries(self) -> dict[str, dict[str, Any]]:
        """What the simulator says of each run."""
        return {entry.run: json.loads(entry.result or "") for _, entry in self.done}

    @property
    def headline(self) -> list[str]:
        return [entry.run for job, entry in self.done if job.scenario.name == "headline"]

    def table(self, name: str, run: str, *order: str) -> list[Row]:
        """The rows of a run, by some columns; nulls first."""
        if name not in self._tables:
            self._tables[name] = self.lake.read("gold", name).collect()
        rows = [row for row in self._tables[name] if row.run == run]
        return sorted(rows, key=lambda row: [(row[by] is not None, row[by] or 0) for by in order])


@pytest.fixture(scope="session")
def swept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """Every router under every fault of `simulations`, and `headline` with Episub and gossipsub:
    answered together, since most of the time goes into planning."""
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import answer
    from episub_router.pipeline.sweep import grid, parse_choices, sweep

    settings = ["network.nodes=30", "traffic.messages=20", "traffic.start=30",
                "phases.0.start=30", "phases.1.start=35"]  # fmt: skip
    headline = grid("headline", parse_choices(settings), 1)
    jobs = [job for job in headline if "uniform, one" in job.label]
    jobs += [simulation(router, fault) for router in ROUTERS for fault in FAULTS]
    assert {job.scenario.traffic.settle for job in jobs} == {10.0}
    lake = Lake(spark, str(tmp_path_factory.mktemp("swept")))
    done = sweep(spark, lake, jobs)
    for _ in answer(lake, AnswerParams(window=5.0, patience=10.0)):
        pass
    return Swept(lake, done)
