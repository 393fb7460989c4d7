"""One session for all tests here. Where it is installed it is Sail's, which plans in a tenth of the
time, or, with EPISUB_ENGINE=spark, Spark's; `test_engines` holds all tables of both against each
other. Without PySpark they are skipped."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from unittest import mock

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
    """The session of most tests."""
    pytest.importorskip("pyspark")
    from episub_router.pipeline import session

    usual = session.SAIL if find_spec("pysail") else session.SPARK
    started = _started(os.environ.get("EPISUB_ENGINE", usual))
    yield started
    started.stop()


@pytest.fixture(scope="session")
def jvm(spark: SparkSession) -> Iterator[SparkSession]:
    """Spark's, for what only that can do."""
    from episub_router.pipeline import session

    if not session.is_remote(spark):
        yield spark
        return
    with mock.patch.dict(os.environ):
        os.environ.pop(_CONNECT)
        started = _started(session.SPARK)
        yield started
        started.stop()


def _started(engine: str) -> SparkSession:
    from episub_router.pipeline import session

    options = {"spark.driver.memory": "1g"}
    return session.start("local[2]", session.FOR_LITTLE | options, engine)


_CONNECT = "SPARK_CONNECT_MODE_ENABLED"
"""By which PySpark's functions know whether they are for Spark Connect."""


def speak_to(spark: SparkSession) -> None:
    """From now on, PySpark's functions make what `spark` understands."""
    from episub_router.pipeline import session

    if session.is_remote(spark):
        os.environ[_CONNECT] = "1"
    else:
        os.environ.pop(_CONNECT, None)


@pytest.fixture(autouse=True)
def spoken_to(request: pytest.FixtureRequest) -> None:
    for name in ("jvm", "spark", "swept"):
        if name in request.fixturenames:
            speak_to(request.getfixturevalue("jvm" if name == "jvm" else "spark"))
            return


@pytest.fixture
def episub(
    spark: SparkSession, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Callable[[list[str]], int]:
    """The command line, in the session of most tests; with "spark" as its parameter, in Spark's
    where the command chooses that."""
    from episub_router.pipeline import session

    really_start = session.start

    def start(master: object, conf: object, engine: str, remote: object = None) -> SparkSession:
        found: SparkSession = spark
        if engine == session.SPARK == getattr(request, "param", ""):
            monkeypatch.setattr(session, "start", really_start)
            found = request.getfixturevalue("jvm")
            monkeypatch.setattr(session, "start", start)
        monkeypatch.setattr(type(found), "stop", lambda self: None)
        speak_to(found)
        return found

    monkeypatch.setattr(session, "start", start)

    def run(arguments: list[str]) -> int:
        try:
            return main(arguments)
        finally:
            speak_to(spark)

    return run


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
        from pyspark.sql import Row

        by_run = self._tables.get((layer, name))
        if by_run is None:
            by_run = self._tables[layer, name] = defaultdict(list)
            for row in self.lake.look(layer, name).to_table().to_pylist():
                by_run[row["run"]].append(Row(**row))
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

    speak_to(spark)
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
    known |= {"slow link": handmade.slow_link(), "full queue": handmade.full_queue()}
    for run, until, cut in (("sparse kill", handmade.BACK, False), ("killed", 999, False),
                            ("sparse cut", handmade.HEALED, True)):  # fmt: skip
        known[run] = handmade.sparse({"p7"} if not cut else apart["parted"], until=until, cut=cut)
    put_records(lake, {**random, "damaged": damaged(RandomTrace(0).events), **known})
    for _ in answer(lake, AnswerParams(window=WINDOW, patience=PATIENCE, looks=20)):
        pass
    return Swept(lake, done, random)
