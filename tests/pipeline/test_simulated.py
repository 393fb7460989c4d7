"""Simulated runs: the answers from the trace are the simulator's own figures; sweeps on Spark
give what local processes give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from episub_router.sim import loading
from episub_router.sim.runner import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_a_sweep_equals_local_runs_and_the_answers_equal_both(
    spark: SparkSession, tmp_path: Path
) -> None:
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import answer
    from episub_router.pipeline.sweep import grid, parse_choices, sweep

    lake = Lake(spark, str(tmp_path))
    choices = parse_choices(["network.nodes=40", "faults.0.rate=0.02,0.05"])
    jobs = grid("churn", choices, 2)
    assert [(job.label, job.seed) for job in jobs] == [
        (f"faults.0.rate={rate}", seed) for rate in (0.02, 0.05) for seed in (1, 2)
    ]
    done = sweep(spark, lake, jobs)
    summaries = {}
    for job, entry in done:
        assert entry.result == run(job.scenario, job.seed).to_json()
        summaries[entry.run] = json.loads(entry.result)
    assert sweep(spark, lake, jobs) == done
    settle = jobs[0].scenario.traffic.settle
    for _ in answer(lake, AnswerParams(patience=settle)):
        pass
    for name, summary in summaries.items():
        rows = lake.read("gold", "messages", [name]).orderBy("index").collect()
        for figure in ("reliability", "rmr", "ldh", "mean_hops", "payloads"):
            assert [row[figure] for row in rows] == summary["messages"][figure]
        (whole,) = lake.read("gold", "spread", [name]).where("window IS NULL").collect()
        assert whole.newcomers == summary["newcomer_deliveries"]
        sends = {
            row.kind: row.sends
            for row in lake.read("gold", "control_traffic", [name])
            .where("window IS NULL")
            .collect()
        }
        traffic = {kind.lower(): entry["sends"] for kind, entry in summary["traffic"].items()}
        assert sends == {
            kind: count for kind, count in traffic.items() if kind not in ("gossip", "payload")
        }


def test_latencies_and_the_overlay_are_the_simulators(spark: SparkSession, tmp_path: Path) -> None:
    from episub_router.pipeline.ingest import read_records
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import Tables

    settings = {"network.nodes": 60, "traffic.messages": 20}
    (scenario,) = loading.load("hyparview-overlay").scenarios(settings).values()
    trace = tmp_path / "trace.parquet"
    summary = run(scenario, 3, trace=trace).summary
    (phase,) = summary["phases"]
    records = read_records(spark, [str(trace)], "r").cache()
    tables = Tables({"records": records}, AnswerParams(window=1000.0))
    (whole,) = tables("spread").where("window IS NULL").collect()
    for name, seconds in phase["latency"].items():
        assert whole[f"latency_{name}"] / 1e9 == pytest.approx(seconds, abs=1e-9)
    assert whole.atomicity == phase["atomic"]
    assert whole.duplicates_per_delivery == phase["duplicates_per_delivery"]
    (overlay,) = tables("overlay").collect()
    both = [name for name in overlay.__fields__ if name in phase["overlay"]]
    assert len(both) > 9
    for name in both:
        if name != "proximity_ratio":
            assert overlay[name] == pytest.approx(phase["overlay"][name])


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
