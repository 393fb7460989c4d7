"""A bridge between go peers and Episub nodes at a constant rate."""

from __future__ import annotations

import pytest

from interop.harness.lab import Lab
from interop.harness.rate import measure

SECONDS = 30
LATEST = 1.0
"""Seconds; the 99th percentile."""


# Two cores are enough for the four peers and the harness, and not for other tests' peers as well.
@pytest.mark.quiet
@pytest.mark.peers("go")
@pytest.mark.parametrize("rate", [50, 200])
async def test_a_bridge_keeps_up(lab: Lab, rate: int) -> None:
    report = await measure(lab, "episub", rate, SECONDS)
    print(report)
    assert report.missing == 0, report
    assert report.p99 < LATEST, report
