"""Every router under churn, crashes and loss: what the pipeline makes of the trace is what the
simulator counted, in all figures that both have."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.pipeline.simulations import FAULTS, ROUTERS

if TYPE_CHECKING:
    from tests.pipeline.conftest import Swept

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("router", ROUTERS)
def test_all_figures(swept: Swept, router: str, fault: str) -> None:
    run = f"{router}-{fault}-1"
    summary = swept.summaries[run]
    rows = sorted(swept.table("messages", run), key=lambda row: row["index"])
    for figure in ("reliability", "rmr", "ldh", "payloads"):
        assert [row[figure] for row in rows] == summary["messages"][figure], figure
    hops = [row.mean_hops or 0.0 for row in rows]
    assert hops == pytest.approx(summary["messages"]["mean_hops"])
    (whole,) = (row for row in swept.table("spread", run) if row.window is None)
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
    cdf = {row.millisecond: row.deliveries for row in swept.table("latency_cdf", run)}
    # A time at the edge of a millisecond may be rounded to either side.
    assert sum((Counter(cdf) - Counter(histogram)).values()) <= 1
    missing: Counter[str] = Counter()
    for row in swept.table("missing", run):
        if row.window is None:
            missing[row.reason] += row["count"]
    wanted = Counter(summary["missing"])
    gone = {"crash": wanted.pop("crashed", 0), "leave": wanted.pop("left", 0)}
    went = Counter({how: missing.pop(how, 0) for how in ("crash", "leave")})
    assert +went == +Counter(gone)
    assert missing.total() == sum(wanted.values())


@pytest.mark.parametrize("fault", ["churn", "crash"])
@pytest.mark.parametrize("router", ROUTERS)
def test_faults_are_those_of_the_simulator(swept: Swept, router: str, fault: str) -> None:
    """One fault for every router, however many nodes crash within what time of each other."""
    run = f"{router}-{fault}-1"
    summary = swept.summaries[run]
    (wanted,) = summary["faults"]
    (found,) = swept.table("recovery", run)
    assert (found.ending, found.nodes) == (wanted["kind"], wanted["nodes"])
    assert found.time / 1e9 == wanted["at"]
    assert found.repaired_after == wanted["repaired_after"]
    if found.restored_after is not None:
        assert found.restored_after == max(found.repaired_after, found.latency_restored_after)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("router", ROUTERS)
def test_traffic_and_the_overlay(swept: Swept, router: str, fault: str) -> None:
    run = f"{router}-{fault}-1"
    summary = swept.summaries[run]
    sends: Counter[str] = Counter()
    for row in swept.table("control_traffic", run):
        if row.window is None:
            # The simulator counts NEIGHBOR in all its roles as one.
            kind = "neighbor" if row.kind.startswith("neighbor-") else row.kind
            sends[kind] += row.sends
    traffic = {kind.lower(): entry["sends"] for kind, entry in summary["traffic"].items()}
    not_control = ("gossip", "payload", "publish", "connect")
    assert sends == {kind: n for kind, n in traffic.items() if kind not in not_control}
    (phase,) = summary["phases"]
    kind = {"episub": "active", "gossipsub": "eager", "floodsub": "stream"}[router]
    last = max(
        (row for row in swept.table("overlay", run) if row.kind == kind), key=lambda row: row.time
    )
    both = [name for name in last.__fields__ if name in phase["overlay"]]
    assert len(both) > 9
    for name in both:
        if name != "proximity_ratio":
            assert last[name] == pytest.approx(phase["overlay"][name]), name
