"""Every router under churn, crashes and loss: what the pipeline makes of the trace is what the
simulator counted, in all figures that both have."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from episub_router.sim.network.settings import NetworkConfig
from episub_router.sim.routers.settings import (
    EpisubConfig,
    FloodsubConfig,
    GossipsubConfig,
    RouterConfig,
)
from episub_router.sim.runner import Job
from episub_router.sim.scenario.faults import ChurnFault, CrashFault, Fault
from episub_router.sim.scenario.settings import JoinConfig, Scenario, TrafficConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import Row, SparkSession

pytestmark = pytest.mark.spark

NODES, MESSAGES = 30, 25

ROUTERS: dict[str, RouterConfig] = {
    "episub": EpisubConfig(),
    "gossipsub": GossipsubConfig(),
    "floodsub": FloodsubConfig(),
}
FAULTS: dict[str, tuple[Fault, ...]] = {
    "churn": (ChurnFault(at=15.0, until=35.0, rate=0.03, crash=0.5),),
    "crash": (CrashFault(at=20.0, share=0.3),),
    "lossy": (),
}
Compared = dict[str, tuple[dict[str, Any], "Callable[[str], list[Row]]"]]


def job(router: str, fault: str) -> Job:
    made = Scenario(
        name=f"{router}-{fault}",
        network=NetworkConfig(nodes=NODES, loss=0.05 if fault == "lossy" else 0.0),
        router=ROUTERS[router],
        # Nodes come while messages are under way.
        join=JoinConfig(over=18.0),
        traffic=TrafficConfig(messages=MESSAGES, start=12.0, interval=1.0),
        faults=FAULTS[fault],
    )
    return Job("", made, 1)


@pytest.fixture(scope="module")
def compared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Compared:
    """The simulator's summary and a way to the tables, by router and fault."""
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import answer
    from episub_router.pipeline.sweep import sweep

    lake = Lake(spark, str(tmp_path_factory.mktemp("compared")))
    done = sweep(spark, lake, [job(router, fault) for router in ROUTERS for fault in FAULTS])
    for _ in answer(lake, AnswerParams(patience=10.0)):
        pass
    tables: dict[str, list[Row]] = {}

    def of(run: str) -> Callable[[str], list[Row]]:
        def table(name: str) -> list[Row]:
            if name not in tables:
                tables[name] = lake.read("gold", name).collect()
            return [row for row in tables[name] if row.run == run]

        return table

    return {
        made.scenario.name: (json.loads(entry.result or ""), of(entry.run)) for made, entry in done
    }


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("router", ROUTERS)
def test_all_figures(compared: Compared, router: str, fault: str) -> None:
    summary, table = compared[f"{router}-{fault}"]
    rows = sorted(table("messages"), key=lambda row: row["index"])
    for figure in ("reliability", "rmr", "ldh", "payloads"):
        assert [row[figure] for row in rows] == summary["messages"][figure], figure
    hops = [row.mean_hops or 0.0 for row in rows]
    assert hops == pytest.approx(summary["messages"]["mean_hops"])
    (whole,) = (row for row in table("spread") if row.window is None)
    (phase,) = summary["phases"]
    assert whole.newcomers == summary["newcomer_deliveries"]
    assert whole.atomicity == phase["atomic"]
    for figure in ("messages", "deliveries", "worst_reliability", "rmr_first", "rmr_last",
                   "ldh_max", "fan_out_max"):  # fmt: skip
        assert whole[figure] == phase[figure], figure
    for figure in ("reliability", "rmr", "ldh", "mean_hops", "leaves", "duplicates_per_delivery"):
        assert whole[figure] == pytest.approx(phase[figure]), figure
    for figure, seconds in phase["latency"].items():
        assert whole[f"latency_{figure}"] / 1e9 == pytest.approx(seconds, abs=2e-9), figure
    histogram = {ms: count for ms, count in enumerate(phase["latency_histogram_ms"]) if count}
    cdf = {row.millisecond: row.deliveries for row in table("latency_cdf")}
    # A time at the edge of a millisecond may be rounded to either side.
    assert sum((Counter(cdf) - Counter(histogram)).values()) <= 1
    missing: Counter[str] = Counter()
    for row in table("missing"):
        if row.window is None:
            missing[row.reason] += row["count"]
    wanted = Counter(summary["missing"])
    gone = {"crash": wanted.pop("crashed", 0), "leave": wanted.pop("left", 0)}
    assert missing.pop("missing", 0) == sum(wanted.values())
    assert +missing == +Counter(gone)


@pytest.mark.parametrize("fault", ["churn", "crash"])
@pytest.mark.parametrize("router", ROUTERS)
def test_faults_are_those_of_the_simulator(compared: Compared, router: str, fault: str) -> None:
    """One fault for every router, however many nodes crash within what time of each other."""
    summary, table = compared[f"{router}-{fault}"]
    (wanted,) = summary["faults"]
    (found,) = table("recovery")
    assert (found.ending, found.nodes) == (wanted["kind"], wanted["nodes"])
    assert found.time / 1e9 == wanted["at"]
    assert found.repaired_after == wanted["repaired_after"]
    if found.restored_after is not None:
        assert found.restored_after == max(found.repaired_after, found.latency_restored_after)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("router", ROUTERS)
def test_traffic_and_the_overlay(compared: Compared, router: str, fault: str) -> None:
    summary, table = compared[f"{router}-{fault}"]
    sends: Counter[str] = Counter()
    for row in table("control_traffic"):
        if row.window is None:
            # The simulator counts NEIGHBOR in all its roles as one.
            kind = "neighbor" if row.kind.startswith("neighbor-") else row.kind
            sends[kind] += row.sends
    traffic = {kind.lower(): entry["sends"] for kind, entry in summary["traffic"].items()}
    not_control = ("gossip", "payload", "publish", "connect")
    assert sends == {kind: n for kind, n in traffic.items() if kind not in not_control}
    (phase,) = summary["phases"]
    kind = {"episub": "active", "gossipsub": "eager", "floodsub": "stream"}[router]
    last = max((row for row in table("overlay") if row.kind == kind), key=lambda row: row.time)
    both = [name for name in last.__fields__ if name in phase["overlay"]]
    assert len(both) > 9
    for name in both:
        if name != "proximity_ratio":
            assert last[name] == pytest.approx(phase["overlay"][name]), name
