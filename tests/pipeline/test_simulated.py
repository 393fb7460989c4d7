"""Simulated runs: the answers from the trace are the simulator's own figures; sweeps on Spark
give what local processes give."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from episub_router.sim.runner import Job, run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.pipeline.conftest import Swept

pytestmark = pytest.mark.spark


def test_a_sweep_equals_local_runs(swept: Swept) -> None:
    for job, entry in swept.done[:3]:
        assert entry.result == run(job.scenario, job.seed).to_json()
    assert [job.label for job, _ in swept.done[:2]] == [
        "episub, uniform, one source", "gossipsub, uniform, one source",
    ]  # fmt: skip


def test_what_was_run_is_not_run_again(spark: SparkSession, swept: Swept) -> None:
    from episub_router.pipeline.sweep import sweep

    assert sweep(spark, swept.lake, [job for job, _ in swept.done]) == swept.done


def test_runs_are_kept_when_a_sweep_is_interrupted(spark: SparkSession, tmp_path: Path) -> None:
    """Those that are done aren't run again; with summaries alone, there are no traces."""
    from episub_router.pipeline.lake import Lake, LakeError
    from episub_router.pipeline.session import SparkError
    from episub_router.pipeline.sweep import sweep
    from episub_router.sim.network.settings import NetworkConfig
    from episub_router.sim.scenario.settings import Scenario, TrafficConfig

    small = Scenario(
        name="small", network=NetworkConfig(nodes=5), traffic=TrafficConfig(messages=1)
    )
    jobs = [Job("", small, seed) for seed in (1, 2, 3)]
    # A task fails on this one: there are fewer nodes than are to get each message.
    outside = TrafficConfig(messages=1, source="outside", fanout=9)
    broken = Job("", Scenario(name="broken", network=NetworkConfig(nodes=5), traffic=outside), 3)
    lake = Lake(spark, str(tmp_path / "lake"))
    with pytest.raises((SparkError, ValueError), match="Sample larger than population"):
        sweep(spark, lake, [*jobs[:2], broken], summaries_only=True)
    before = sorted(lake.manifest(), key=lambda entry: entry.run)
    assert [entry.run for entry in before] == ["small-1", "small-2"]
    done = sweep(spark, lake, jobs, summaries_only=True)
    assert [entry for _, entry in done][:2] == before
    assert done[2][1].result == run(small, 3).to_json()
    with pytest.raises(LakeError, match="no run"):
        lake.records()
    # With traces, all are run.
    traced = sweep(spark, lake, jobs)
    assert [entry.result for _, entry in traced] == [entry.result for _, entry in done]
    assert lake.records(["small-2"]).count() == traced[1][1].records + 1


def test_the_answers_are_the_simulators_figures(swept: Swept) -> None:
    for name in swept.headline:
        summary = swept.summaries[name]
        rows = swept.table("messages", name, "index")
        for figure in ("reliability", "rmr", "ldh", "mean_hops", "payloads"):
            assert [row[figure] for row in rows] == summary["messages"][figure]
        (whole,) = (row for row in swept.table("spread", name) if row.window is None)
        assert whole.newcomers == summary["newcomer_deliveries"]
        sends: Counter[str] = Counter()
        for row in swept.table("control_traffic", name):
            if row.window is None:
                # The simulator counts NEIGHBOR in all its roles as one.
                kind = "neighbor" if row.kind.startswith("neighbor-") else row.kind
                sends[kind] += row.sends
        traffic = {kind.lower(): entry["sends"] for kind, entry in summary["traffic"].items()}
        not_control = ("gossip", "payload", "publish", "connect")
        assert sends == {kind: n for kind, n in traffic.items() if kind not in not_control}


def test_latencies_and_the_overlay_are_the_simulators(swept: Swept) -> None:
    for name in swept.headline:
        first, steady = swept.summaries[name]["phases"]
        windows = swept.table("spread", name, "window")
        of_phase = {20: first, 25: steady}
        assert {row.window for row in windows} == {None, *(at * 10**9 for at in of_phase)}
        for row in windows:
            if row.window is None:
                continue
            phase = of_phase[row.window // 10**9]
            for figure, seconds in phase["latency"].items():
                assert row[f"latency_{figure}"] / 1e9 == pytest.approx(seconds, abs=1e-9)
            assert row.atomicity == phase["atomic"]
            assert row.duplicates_per_delivery == phase["duplicates_per_delivery"]
            assert row.fan_out_max == phase["fan_out_max"]
        kind = "active" if name.startswith("headline-episub") else "eager"
        looks = [row for row in swept.table("overlay", name, "time") if row.kind == kind]
        both = [figure for figure in looks[-1].__fields__ if figure in steady["overlay"]]
        assert len(both) > 9
        for figure in both:
            if figure != "proximity_ratio":
                assert looks[-1][figure] == pytest.approx(steady["overlay"][figure])


def test_runs_of_one_name_are_not_mixed() -> None:
    """Neither with other settings that the name doesn't tell, nor with what was ingested, nor with
    each other. No simulation has begun by then: there is no session here."""
    pytest.importorskip("pyspark")
    from episub_router.pipeline.lake import Entry, LakeError
    from episub_router.pipeline.sweep import grid, parse_choices, run_name, sweep

    small, large = (
        grid("churn", parse_choices([f"network.nodes={nodes}"]), 1) for nodes in (20, 30)
    )
    assert [run_name(job) for job in small] == [run_name(job) for job in large]
    old = Entry("b", run_name(small[0]), "f", "another digest", 1, "simulator", 1, 1, 0)
    for there, jobs in (([old], small), ([], small + large)):
        lake: Any = SimpleNamespace(manifest=lambda there=there: there)
        with pytest.raises(LakeError, match=r"run churn-1 would have more than one content"):
            sweep(None, lake, jobs)  # type: ignore[arg-type]


def test_a_grid_has_every_combination() -> None:
    pytest.importorskip("pyspark")
    from episub_router.pipeline.sweep import grid, parse_choices, run_name

    jobs = grid("churn", parse_choices(["network.nodes=30", "faults.0.rate=0.02,0.05"]), 2)
    assert [(job.label, run_name(job)) for job in jobs] == [
        (f"faults.0.rate={rate}", f"churn-faults.0.rate={rate}-{seed}")
        for rate in (0.02, 0.05)
        for seed in (1, 2)
    ]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a.b=1,2.5,x", [1, 2.5, "x"]),
        ('a.b=[1,2],"x,y"', [[1, 2], "x,y"]),
        ("a.b=off", ["off"]),
    ],
)
def test_choices(text: str, values: list[object]) -> None:
    pytest.importorskip("pyspark")
    from episub_router.pipeline.sweep import parse_choices

    assert parse_choices([text]) == {"a.b": values}
