"""One Spark session for all tests here; without Spark they are skipped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

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


@dataclass(frozen=True)
class Swept:
    """Simulations with their answers."""

    lake: Lake
    done: list[tuple[Job, Entry]]

    @property
    def summaries(self) -> dict[str, dict[str, Any]]:
        """What the simulator says of each run."""
        return {entry.run: json.loads(entry.result or "") for _, entry in self.done}

    @property
    def headline(self) -> list[str]:
        return [entry.run for job, entry in self.done if job.scenario.name == "headline"]

    def table(self, name: str, run: str, *order: str) -> list[Row]:
        return self.lake.read("gold", name, [run]).orderBy(*order or ["run"]).collect()


@pytest.fixture(scope="session")
def swept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """Nodes that come and go, at two rates, and `headline` with Episub and gossipsub."""
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import answer
    from episub_router.pipeline.sweep import grid, parse_choices, sweep

    churn = parse_choices(["network.nodes=30", "traffic.messages=25", "faults.0.rate=0.02,0.05"])
    headline = parse_choices(["network.nodes=30", "traffic.messages=20"])
    jobs = grid("churn", churn, 1)
    jobs += [job for job in grid("headline", headline, 1) if "uniform, one" in job.label]
    lake = Lake(spark, str(tmp_path_factory.mktemp("swept")))
    done = sweep(spark, lake, jobs)
    for _ in answer(lake, AnswerParams(window=5.0, patience=jobs[0].scenario.traffic.settle)):
        pass
    return Swept(lake, done)
