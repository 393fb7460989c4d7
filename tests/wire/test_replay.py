"""Sequence ids: no frame counts twice, and none is lost for having been overtaken (E42)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from libp2p.peer.id import ID

from episub_router.net.backlog import Backlog
from episub_router.net.peers import RemotePeer
from episub_router.wire.sequence import ReplayWindow

START = 1_790_000_000_000_000_000


def receiver(start: int = START) -> RemotePeer:
    return RemotePeer(ID(b"me"), Backlog(1, 1), start)


@given(
    st.lists(st.one_of(st.integers(1, 40), st.integers(1, 2**64 - 1)), max_size=200),
    st.integers(1, 10),
)
def test_each_id_is_accepted_once_and_only_inside_the_window(seqs: list[int], size: int) -> None:
    window = ReplayWindow(size)
    seen: set[int] = set()
    for seq in seqs:
        expected = seq not in seen and seq > max(seen, default=0) - size
        assert window.accept(seq) is expected
        if expected:
            seen.add(seq)


def test_frames_overtaken_in_full_send_queues_are_accepted() -> None:
    window, me = ReplayWindow(), receiver()
    waiting = [me.next_sequence_id() for _ in range(32)]
    priority = [me.next_sequence_id() for _ in range(95)]
    assert all(window.accept(seq) for seq in priority + waiting)
    assert not any(window.accept(seq) for seq in priority + waiting)


def test_a_restarted_peer_goes_on_above_its_past() -> None:
    window, before = ReplayWindow(), receiver()
    assert all(window.accept(before.next_sequence_id()) for _ in range(1000))
    after = receiver(START + 10**9)
    assert all(window.accept(after.next_sequence_id()) for _ in range(1000))


def test_ids_have_no_gaps() -> None:
    me = receiver()
    assert [me.next_sequence_id() - START for _ in range(3)] == [1, 2, 3]
