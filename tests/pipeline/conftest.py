"""One session for all tests here, of Spark or, with EPISUB_ENGINE=sail, of Sail; without PySpark
they are skipped."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

from episub_router.cli.main import main
from tests.pipeline import handmade
from tests.pipeline.oracle import Event
from tests.pipeline.records import put_records
from tests.pipeline.simulations import FAULTS, ROUTERS, hostile, parted, simulation
from tests.pipeline.traces import PATIENCE, SEEDS, WINDOW, RandomTrace, damaged

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

    from episub_router.pipeline.lake import Entry, Lake
    from episub_router.sim.runner import Job


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    pytest.importorskip("pyspark")
    from episub_router.pipeline import session

    engine = os.environ.get("EPISUB_ENGINE", session.SPARK)
    if engine == session.SAIL:
        pytest.importorskip("pysail")
    memory = {"spark.driver.memory": "1g"}
    # All of it at once: a heap that grows is collected as a whole each time.
    memory[session.OPTIONS] = f"{session.FOR_FEW_ROWS[session.OPTIONS]} -Xms1g"
    started = session.start("local[2]", session.FOR_FEW_ROWS | memory, engine)
    yield started
    started.stop()


@pytest.fixture
def episub(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], int]:
    """The command line, in the one session of all tests."""
    from episub_router.pipeline import session

    monkeypatch.setattr(session, "start", lambda *given, **named: spark)
    monkeypatch.setattr(type(spark), "stop", lambda self: None)
    return main


@dataclass
class Swept:
    """Runs with their answers: simulated, random and made by hand."""

    lake: Lake
    done: list[tuple[Job, Entry]]
    random: dict[str, list[Event]]
    """Events of the runs that the oracle knows the answers of."""
    _tables: dict[tuple[str, str], dict[str, list[Row]]] = field(default_factory=dict)

    @property
    def summaries(self) -> dict[str, dict[str, Any]]:
        """What the simulator says of each run."""
        return {entry.run: json.loads(entry.result or "") for _, entry in self.done}

    @property
    def headline(self) -> list[str]:
        return [entry.run for job, entry in self.done if job.scenario.name == "headline"]

    def table(self, name: str, run: str, *order: str, layer: str = "gold") -> list[Row]:
        """The rows of a run, by some columns; nulls first."""
        by_run = self._tables.get((layer, name))
        if by_run is None:
            by_run = self._tables[layer, name] = defaultdict(list)
            for row in self.lake.read(layer, name).collect():
                by_run[row.run].append(row)
        return sorted(
            by_run[run], key=lambda row: [(row[by] is not None, row[by] or 0) for by in order]
        )


@pytest.fixture(scope="session")
def swept(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Swept:
    """Every router under every fault of `simulations`, `headline` with Episub and gossipsub, and
    the runs of `traces` and `handmade`: answered together, since most of the time goes into
    planning."""
    from episub_router.pipeline.ingest import ingest
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import answer
    from episub_router.pipeline.sweep import grid, parse_choices, sweep

    settings = ["network.nodes=20", "traffic.messages=20", "traffic.start=20",
                "phases.0.start=20", "phases.1.start=25"]  # fmt: skip
    headline = grid("headline", parse_choices(settings), 1)
    jobs = [job for job in headline if "uniform, one" in job.label]
    jobs += [simulation(router, fault) for router in ROUTERS for fault in FAULTS]
    jobs += [parted(), hostile()]
    assert {job.scenario.traffic.settle for job in jobs} == {float(PATIENCE)}
    directory = tmp_path_factory.mktemp("swept")
    lake = Lake(spark, str(directory / "lake"))
    done = sweep(spark, lake, jobs)
    handmade.write_lossy_star(directory / "star")
    ingest(spark, lake, [str(directory / "star")])
    random = {f"random {seed}": RandomTrace(seed).events for seed in SEEDS}
    apart = {"parted": set(handmade.PEERS[4:]), "stopped": {"p7"}, "whole": set()}
    known = {
        run: handmade.parted(peers, silent=run == "stopped", lost=33)
        for run, peers in apart.items()
    }
    known |= {"skewed": handmade.skewed(), "jumped": handmade.jumped()}
    put_records(lake, {**random, "damaged": damaged(RandomTrace(0).events), **known})
    for _ in answer(lake, AnswerParams(window=WINDOW, patience=PATIENCE, looks=20)):
        pass
    return Swept(lake, done, random)
