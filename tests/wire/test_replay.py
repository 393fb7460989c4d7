"""Sequence ids: no frame counts twice, and none is lost for having been overtaken (E42)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episub_router.net.limits import NetLimits
from episub_router.net.replay import ReplayGuard, SequenceIds

START = 1_790_000_000_000_000_000


@given(
    st.lists(st.one_of(st.integers(1, 40), st.integers(1, 2**64 - 1)), max_size=200),
    st.integers(1, 10),
)
def test_each_id_is_fresh_once_and_only_inside_the_window(seqs: list[int], window: int) -> None:
    guard = ReplayGuard(NetLimits(sequence_window=window))
    seen: set[int] = set()
    for seq in seqs:
        expected = seq not in seen and seq > max(seen, default=0) - window
        assert guard.fresh(b"p", seq) is expected
        if expected:
            seen.add(seq)


def test_frames_overtaken_in_full_send_queues_are_fresh() -> None:
    guard, ids = ReplayGuard(), SequenceIds(START)
    waiting = [ids.next(b"me") for _ in range(32)]
    priority = [ids.next(b"me") for _ in range(95)]
    assert all(guard.fresh(b"p", seq) for seq in priority + waiting)
    assert not any(guard.fresh(b"p", seq) for seq in priority + waiting)


def test_a_restarted_peer_goes_on_above_its_past() -> None:
    guard = ReplayGuard()
    before = SequenceIds(START)
    assert all(guard.fresh(b"p", before.next(b"me")) for _ in range(1000))
    after = SequenceIds(START + 10**9)
    assert all(guard.fresh(b"p", after.next(b"me")) for _ in range(1000))


def test_a_new_connection_starts_a_new_window() -> None:
    guard = ReplayGuard()
    assert guard.fresh(b"p", START)
    assert not guard.fresh(b"p", 5)
    guard.forget(b"p")
    guard.forget(b"unknown")
    assert guard.fresh(b"p", 5)
    assert not guard.fresh(b"p", 5)


def test_peers_do_not_share_windows() -> None:
    guard = ReplayGuard()
    assert guard.fresh(b"p", 5)
    assert guard.fresh(b"q", 5)


def test_the_guard_is_bounded() -> None:
    guard = ReplayGuard(NetLimits(sequence_peers=3))
    for number in range(10):
        assert guard.fresh(b"busy", 100 + number)
        assert guard.fresh(b"%d" % number, 2**64 - 1)
    assert len(guard) == 3
    assert not guard.fresh(b"busy", 105), "the busy peer was not the one to go"


def test_ids_have_no_gaps_per_receiver() -> None:
    ids = SequenceIds(START)
    assert [ids.next(peer) - START for peer in (b"p", b"q", b"p", b"q", b"p")] == [1, 1, 2, 2, 3]


@given(st.lists(st.integers(0, 6), max_size=100))
def test_ids_only_rise_though_receivers_are_forgotten(receivers: list[int]) -> None:
    ids = SequenceIds(START, NetLimits(sequence_peers=2))
    last: dict[int, int] = {}
    for receiver in receivers:
        seq = ids.next(b"%d" % receiver)
        assert seq > last.get(receiver, START)
        last[receiver] = seq


@pytest.mark.parametrize("name", ["book_peers", "sequence_peers", "sequence_window"])
def test_limits_must_be_positive(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at least 1: 0"):
        NetLimits(**{name: 0})
