"""A small report made by hand, with whatever names, and those of a lake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from episub_router.pipeline.report.drawing import draw
from episub_router.pipeline.report.figures import FIGURES
from episub_router.pipeline.report.model import Report, Run, TopicReport
from episub_router.pipeline.report.notes import notes

if TYPE_CHECKING:
    from episub_router.pipeline.lake import Lake

QUALITY = {
    "events": 1000, "peers": 3, "begin": 0, "end": 5_000_000_000, "clocks": 3,
    "clocks_corrected": 1, "clocks_unknown": 0, "largest_offset": 2_500_000,
    "largest_uncertainty": 40_000, "quarantined": 7, "dropped_by_tracer": 0,
    "subscriptions_inferred": False,
}  # fmt: skip


def small_report(name: str = "after", *, slower: float = 1.0) -> Report:
    """The run `name` against the run `before`, which is `slower` times faster."""
    runs = [_run("before", 1.0), _run(name, slower)]
    return Report(runs[1:], runs[0], 3.0, notes(runs))


def gathered(lake: Lake, runs: Sequence[str], *baselines: str, **params: int) -> Report:
    """The report on `runs` of a lake."""
    from episub_router.pipeline.report.gathering import gather
    from episub_router.pipeline.report.params import ReportParams

    return gather(lake, runs, baselines, ReportParams(**params))


PEER = "12D3KooWRReqn4WKmn8k3Niwid8dmJJs1XdcQQtq7WzKFiHJfVfT"

_TRAITS = {
    "software": ("episub 1",),
    "protocol": ("/episub/1.0.0, /meshsub/1.1.0", "/meshsub/1.2.0"),
    "region": ("south-america", "<b>"),
}


def _run(name: str, slower: float) -> Run:
    figures: dict[str, float | None] = {figure.name: 0.0 for figure in FIGURES}
    figures |= {
        "messages": 2, "reliability": 0.999999, "missing": 1, "latency_p99": 5e6 * slower,
        "rmr": 0.5, "proximity_ratio": None,
    }  # fmt: skip
    topic = TopicReport(
        label=name,
        run=name,
        topic="news | <b>",
        figures=figures,
        latencies=[(-3, 0.25), (int(5 * slower), 1.0)],
        messages=[
            {"index": 0, "after": 1.0, "reliability": 1.0, "rmr": 1.0, "ldh": 2, "duplicates": 2,
             "latency_p99": 5_000_000},
            {"index": 1, "after": 2.0, "reliability": 0.5, "rmr": 0.0, "ldh": 1, "duplicates": 0,
             "latency_p99": None},
        ],
        degrees={"active": [0, 2, 1], "eager": [1, 2]},
        overlay=[{"kind": "active", "after": 1.0, "proximity_ratio": 0.9},
                 {"kind": "active", "after": 2.0, "proximity_ratio": 0.8}],
        faults=[{"after": 1.5, "nodes": 1, "ending": "crash", "reliability_worst": 0.5,
                 "repaired_after": None, "rmr_restored_after": 0.5}],
        causes={"cut": (2, 1), "overlay": (0, 1)},
        rest={"messages": 3, "live": 9, "delivered": 9, "late": 0,
              "latency_p50": 4_000_000, "latency_p99": 6_000_000},
        missing={"cut": 1, "crash": 2},
        duplicates={"push": 2},
        drawing=draw("m1", "a", {"a": None, "b": "a", "c": "b", "lost": "nobody"},
                     [("a", "b"), ("b", "c"), ("a", "c")], "active", 10),
    )  # fmt: skip
    return Run(
        name=name,
        about={"router": "episub", "seed": 1},
        quality=QUALITY,
        control=[{"kind": "ihave", "sends": 4, "ids": 6, "bytes": None,
                  "sends_per_delivery": 0.5}],
        losses=[{"kind": "discard", "reason": "late *and* `odd`", "count": 3}],
        load=[(0.0, 9, 900), (0.5, 1, None)],
        balance={"sent_messages": {"mean": 5.0, "max": 9.0, "gini": 0.4}},
        clocks=[{"peer": PEER, "offset": 2_500_000, "uncertainty": None, "correction": 0}],
        channels=[{"channel": "c", "participants": 2, "messages": 3, "everywhere": 3,
                   "converged": True, "different_logs": 1, "violations": 0,
                   "resends_per_message": 0.1, "lost": 0, "ack_latency_mean": 1e8}],
        topics=[topic],
        topics_left_out=0,
        faults=[{"run": name, "cause": "cut", "begin": 0, "end": 1, "after": 1.0, "until": 3.0,
                 "calm_after": None, "count": 1, "others": 2, "peers": [name], "detail": None,
                 "late": 2, "lost": 1}],
        worst=[{"peer": PEER, "expected": 2, "missing": 1, "late": 1, "causes": "1 cut",
                "latency": 5e6, "hops": 2.0, "usual_latency": 4e6, "usual_hops": 1.5,
                "why": "apart | from <b>"}],
        groups=[{"trait": trait, "value": value, "peers": 2, "expected": 4, "missing": 0,
                 "late": 1, "latency_mean": 5e6, "latency_p50": 4_000_000, "latency_p99": None,
                 "hops_mean": 1.5} for trait, values in _TRAITS.items() for value in values],
    )  # fmt: skip
