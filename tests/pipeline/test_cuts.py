"""A network that is parted, and a peer that is stopped, are named as what they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.pipeline.handmade import BEGIN, END, PEERS
from tests.pipeline.oracle import SECOND
from tests.pipeline.traces import PATIENCE

if TYPE_CHECKING:
    from tests.pipeline.conftest import Swept

pytestmark = pytest.mark.spark

# What was published less than that before the end came in time, and one message never.
LATE = END - BEGIN - PATIENCE


def test_two_halves(swept: Swept) -> None:
    (cut,) = swept.table("cuts", "parted")
    assert (cut.kind, cut.peers, cut["count"], cut.others) == ("cut", PEERS[4:], 4, 4)
    assert (cut.begin, cut.end) == (BEGIN * SECOND, END * SECOND)
    assert (cut.late, cut.lost) == (4 * LATE, 4)
    assert set(cut.silent_links) == {f"{a} - {b}" for a in PEERS[:4] for b in PEERS[4:]}


def test_a_stopped_peer(swept: Swept) -> None:
    (cut,) = swept.table("cuts", "stopped")
    assert (cut.kind, cut.peers, cut.others) == ("stopped", ["p7"], 7)
    assert (cut.begin, cut.end) == (BEGIN * SECOND, END * SECOND)
    assert (cut.late, cut.lost) == (LATE, 1)


def test_the_rest_is_judged_without_it(swept: Swept) -> None:
    assert not swept.table("cuts", "whole")
    for run, explained in (("parted", 4 * LATE + 4), ("stopped", LATE + 1), ("whole", 0)):
        (rest,) = swept.table("rest", run)
        assert (rest.explained, rest.late) == (explained, 0)
        assert rest.live == rest.delivered == 68 * 8 - explained
        assert rest.latency_p50 == SECOND // 10
        assert rest.latency_p99 <= (PATIENCE + 0.1) * SECOND
