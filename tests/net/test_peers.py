"""Each transition of a remote peer: what moves it, where to, and what is notified."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from libp2p.pubsub.rpc_queue import RpcQueue
from trio.testing import MockClock

from episub_router import PROTOCOL_ID, RouterParams
from episub_router.net import peers
from episub_router.net.counters import Reason
from episub_router.net.peers import PeerSide, PeerState, RemotePeer
from tests.net.fakes import MESHSUB, FakeConnection, Lab

KEY = b"\x00\x24\x08\x01\x12\x20" + bytes(32)
CLOSED, WRITABLE, INTERRUPTED = PeerState
UNKNOWN, EPISUB, GOSSIPSUB = PeerSide.UNKNOWN, PeerSide.EPISUB, PeerSide.GOSSIPSUB


class Item:
    """Something to send."""

    is_control = True
    size = 0

    def push_to(self, queue: RpcQueue) -> bool:
        return False


@pytest.fixture
def lab() -> Lab:
    lab = Lab()
    lab.listen()
    return lab


@pytest.fixture
def peer(lab: Lab) -> RemotePeer:
    return lab.peers[KEY]


def now(peer: RemotePeer) -> tuple[PeerState, PeerSide]:
    return peer.state, peer.side


def interrupted(lab: Lab, peer: RemotePeer) -> None:
    """Bring `peer` to INTERRUPTED."""
    lab.make_writable(peer)
    lab.lose_stream(peer)
    assert peer.state is INTERRUPTED
    lab.log.take()


def test_a_peer_that_nobody_named_is_closed(lab: Lab, peer: RemotePeer) -> None:
    assert now(peer) == (CLOSED, UNKNOWN)
    assert lab.peers[KEY] is peer
    assert lab.log.take() == []


@pytest.mark.parametrize("for_others", [False, True])
def test_a_peer_is_dialled_once(lab: Lab, peer: RemotePeer, for_others: bool) -> None:
    lab.peers.request(peer, for_others)
    lab.peers.request(peer)
    assert now(peer) == (CLOSED, UNKNOWN)
    assert lab.log.take() == ["dial for others" if for_others else "dial"]


def test_a_request_for_a_connected_peer_waits_for_its_stream(lab: Lab, peer: RemotePeer) -> None:
    lab.connect(peer)
    lab.peers.request(peer)
    assert now(peer) == (CLOSED, UNKNOWN)
    assert lab.log.take() == ["dial"]
    lab.peers.dial_failed(peer)
    assert now(peer) == (CLOSED, UNKNOWN)
    assert lab.log.take() == ["dial failed"]


def test_a_failed_dial(lab: Lab, peer: RemotePeer) -> None:
    lab.peers.request(peer)
    lab.peers.dial_failed(peer)
    assert now(peer) == (CLOSED, UNKNOWN)
    assert lab.log.take() == ["dial", "dial failed"]
    lab.peers.request(peer)
    assert lab.log.take() == ["dial"]


def test_a_failed_dial_loses_what_was_held(lab: Lab, peer: RemotePeer) -> None:
    peer.backlog.send(Item(), None)
    lab.peers.request(peer)
    lab.peers.dial_failed(peer)
    assert lab.log.take() == ["dial", "dial failed", "lost"]
    assert lab.counters[Reason.UNDELIVERABLE] == 1
    assert not peer.backlog


async def test_dialled_and_writable(lab: Lab, peer: RemotePeer) -> None:
    lab.peers.request(peer)
    peer.note_failed_dial(trio.current_time())
    waiting = peer.request
    lab.connect(peer)
    assert now(peer) == (CLOSED, UNKNOWN)
    lab.open_stream(peer)
    assert now(peer) == (WRITABLE, EPISUB)
    assert lab.log.take() == ["dial", "writable"]
    assert waiting is not None
    assert waiting.is_set()
    assert (peer.request, peer.dial_pause, peer.dial_not_before) == (None, 0, 0.0)
    assert lab.peers.writable() == [peer]


def test_writable_is_notified_of_once(lab: Lab, peer: RemotePeer) -> None:
    lab.make_writable(peer)
    lab.peers.queue_opened(peer.id)
    lab.peers.note_episub(peer)
    assert lab.log.take() == ["writable"]


def test_a_stream_without_a_queue_is_not_writable(lab: Lab, peer: RemotePeer) -> None:
    lab.connect(peer)
    lab.peers.stream_opened(peer.id, PROTOCOL_ID)
    assert now(peer) == (CLOSED, EPISUB)
    assert lab.peers.protocols() == {peer.id: PROTOCOL_ID}


def test_writable_to_interrupted_and_back(lab: Lab, peer: RemotePeer) -> None:
    lab.make_writable(peer)
    lab.log.take()
    lab.lose_stream(peer)
    assert now(peer) == (INTERRUPTED, EPISUB)
    assert not lab.peers.is_writable(peer)
    assert lab.log.take() == ["no gossipsub", "dial"]
    lab.open_stream(peer)
    assert now(peer) == (WRITABLE, EPISUB)
    assert lab.log.take() == ["writable"]


def test_interrupted_to_closed(lab: Lab, peer: RemotePeer) -> None:
    """The new stream never came: nothing says any more which side the peer is on."""
    interrupted(lab, peer)
    lab.peers.dial_failed(peer)
    assert now(peer) == (CLOSED, UNKNOWN)
    assert lab.log.take() == ["dial failed", "lost"]
    lab.open_stream(peer, MESHSUB)
    assert now(peer) == (WRITABLE, GOSSIPSUB)


def test_interrupted_and_gone(lab: Lab, peer: RemotePeer) -> None:
    """Pubsub reports no departure of a peer to which it has no stream."""
    interrupted(lab, peer)
    lab.disconnect(peer)
    assert now(peer) == (CLOSED, UNKNOWN)
    assert lab.log.take() == ["lost"]
    lab.peers.dial_failed(peer)
    assert now(peer) == (CLOSED, UNKNOWN)
    assert lab.log.take() == ["dial failed"]


@pytest.mark.parametrize("how", ["protocol", "frame"])
def test_a_peer_that_comes_back_as_something_else_is_served_as_that(
    lab: Lab, peer: RemotePeer, how: str
) -> None:
    """Its replacement stream never came, so that Pubsub said nothing when it went."""
    lab.connect(peer)
    lab.open_stream(peer, PROTOCOL_ID if how == "protocol" else MESHSUB)
    if how == "frame":
        lab.peers.note_episub(peer)
    assert peer.side is EPISUB
    lab.lose_stream(peer)
    lab.disconnect(peer)
    lab.peers.dial_failed(peer)
    lab.log.take()
    lab.make_writable(peer, MESHSUB)
    assert now(peer) == (WRITABLE, GOSSIPSUB)
    assert lab.log.take() == [f"gossipsub {MESHSUB}"]


def test_what_showed_episub_speaks_it_while_it_is_connected(lab: Lab, peer: RemotePeer) -> None:
    interrupted(lab, peer)
    lab.open_stream(peer, MESHSUB)
    assert now(peer) == (WRITABLE, EPISUB)
    assert lab.log.take() == ["writable"]


@pytest.mark.parametrize("held", [False, True])
def test_writable_and_gone(lab: Lab, peer: RemotePeer, held: bool) -> None:
    lab.make_writable(peer)
    lab.log.take()
    if held:
        peer.backlog.send(Item(), None)
    peer.window.accept(10)
    lab.disconnect(peer)
    assert now(peer) == (CLOSED, UNKNOWN)
    assert lab.log.take() == ["no gossipsub", "lost"]
    assert lab.counters[Reason.UNDELIVERABLE] == held
    assert peer.window.accept(5), "the next connection starts a new window"


def test_one_of_two_connections_closes(lab: Lab, peer: RemotePeer) -> None:
    lab.make_writable(peer)
    lab.connect(peer)
    lab.pubsub.connections[peer.id].pop()
    lab.peers.connection_closed(peer.id)
    assert now(peer) == (WRITABLE, EPISUB)


def test_gossipsub_and_gone(lab: Lab, peer: RemotePeer) -> None:
    lab.make_writable(peer, MESHSUB)
    assert now(peer) == (WRITABLE, GOSSIPSUB)
    assert not lab.peers.is_writable(peer)
    assert lab.log.take() == [f"gossipsub {MESHSUB}"]
    lab.lose_stream(peer)
    assert now(peer) == (CLOSED, UNKNOWN)
    assert lab.log.take() == ["no gossipsub"]


def test_gossipsub_to_episub(lab: Lab, peer: RemotePeer) -> None:
    lab.make_writable(peer, MESHSUB)
    peer.backlog.send(Item(), None)
    lab.log.take()
    lab.peers.note_episub(peer)
    assert now(peer) == (WRITABLE, EPISUB)
    assert lab.log.take() == ["no gossipsub", "writable"]
    assert not peer.backlog, "what waited was gossipsub's"
    assert peer.protocol == MESHSUB


def test_frames_held_for_a_peer_that_is_gossipsub_are_lost(lab: Lab, peer: RemotePeer) -> None:
    peer.backlog.send(Item(), None)
    lab.peers.request(peer)
    lab.make_writable(peer, MESHSUB)
    assert lab.log.take() == ["dial", "lost", f"gossipsub {MESHSUB}"]
    lab.peers.dial_failed(peer)
    assert now(peer) == (WRITABLE, GOSSIPSUB)
    assert lab.log.take() == ["dial failed"]


def test_a_frame_of_a_peer_that_is_gone_shows_nothing(lab: Lab, peer: RemotePeer) -> None:
    lab.peers.note_episub(peer)
    assert now(peer) == (CLOSED, UNKNOWN)


def test_a_blacklisted_peer_is_not_writable_though_its_queue_stands(
    lab: Lab, peer: RemotePeer
) -> None:
    lab.make_writable(peer)
    del lab.pubsub.peers[peer.id]
    assert not lab.peers.is_writable(peer)
    lab.peers.interrupt(peer)
    assert peer.state is INTERRUPTED


def test_stalled_and_resumed(lab: Lab, peer: RemotePeer) -> None:
    lab.make_writable(peer)
    lab.log.take()
    peer.backlog.send(Item(), None)
    lab.peers.stall(peer)
    assert now(peer) == (CLOSED, EPISUB)
    assert lab.log.take() == ["lost"]
    assert not peer.backlog
    lab.peers.note_episub(peer)
    assert peer.state is CLOSED, "it sends, and takes nothing"
    lab.peers.resume(peer)
    assert now(peer) == (WRITABLE, EPISUB)
    assert lab.log.take() == ["writable"]


def test_a_new_stream_ends_a_stall(lab: Lab, peer: RemotePeer) -> None:
    lab.make_writable(peer)
    lab.peers.stall(peer)
    lab.lose_stream(peer)
    lab.open_stream(peer)
    assert now(peer) == (WRITABLE, EPISUB)


async def test_a_banned_peer_s_connections_are_to_be_closed(autojump_clock: MockClock) -> None:
    """At once, whatever is sent to it or asks to keep them, and new ones till the ban is over."""
    lab = Lab()
    peer = lab.peers[KEY]
    lab.peers.ban(peer, 60.0)
    assert peer.close_at is None
    for _ in range(2):
        lab.make_writable(peer)
        for keep in (lab.peers.note_use, lab.peers.note_dialled, lab.peers.release):
            keep(peer)
            assert peer.close_at == trio.current_time()
        lab.disconnect(peer)
    lab.peers.ban(peer, 1.0)
    await trio.sleep(59)
    assert lab.peers.is_banned(peer)
    assert peer.dial_not_before > trio.current_time()
    await trio.sleep(2)
    lab.make_writable(peer)
    assert not lab.peers.is_banned(peer)
    assert peer.close_at is None


async def test_what_the_router_dialled_is_its_own_to_close(autojump_clock: MockClock) -> None:
    lab = Lab(RouterParams(idle_timeout=60, release_grace=15))
    peer = lab.peers[KEY]
    lab.peers.release(peer)
    lab.peers.note_use(peer)
    assert peer.close_at is None
    lab.connect(peer)
    changed = lab.peers.close_due_changed
    lab.peers.note_dialled(peer)
    assert changed.is_set()
    assert peer.close_at == trio.current_time() + 60
    lab.peers.release(peer)
    assert peer.close_at == trio.current_time() + 15
    await trio.sleep(10)
    lab.peers.note_use(peer)
    assert peer.close_at == trio.current_time() + 60
    lab.disconnect(peer)
    assert peer.close_at is None


def test_back_off_doubles_up_to_a_minute(peer: RemotePeer) -> None:
    pauses = []
    for _ in range(20):
        peer.note_failed_dial(100.0)
        pauses.append(peer.dial_not_before - 100.0)
    assert pauses[:6] == [2, 4, 8, 16, 32, 60]
    assert pauses[-1] == 60


def test_records_are_bounded_and_connected_ones_stay(monkeypatch: Any) -> None:
    monkeypatch.setattr(peers, "MAX_PEERS", 3)
    lab = Lab()
    peer = lab.peers[KEY]
    lab.make_writable(peer)
    for number in range(10):
        lab.peers.request(lab.peers[b"%d" % number])
    assert len(lab.peers) == 11
    for number in range(10):
        lab.peers.dial_failed(lab.peers[b"%d" % number])
    assert lab.peers[b"10"] in lab.peers
    assert {record.key for record in lab.peers} == {KEY, b"9", b"10"}


async def test_a_ban_outlasts_many_newer_peers(
    lab: Lab, peer: RemotePeer, monkeypatch: Any, autojump_clock: MockClock
) -> None:
    monkeypatch.setattr(peers, "MAX_PEERS", 3)
    lab.peers.ban(peer, 60.0)
    for number in range(10):
        _ = lab.peers[b"%d" % number]
    assert lab.peers.is_banned(lab.peers[KEY])
    await trio.sleep(61.0)
    _ = lab.peers[b"10"]
    assert KEY not in {record.key for record in lab.peers}


def test_the_loss_of_a_neighbour_is_reported_though_records_are_full(
    lab: Lab, peer: RemotePeer, monkeypatch: Any
) -> None:
    """The host forgets a connection before Pubsub reports its end."""
    monkeypatch.setattr(peers, "MAX_PEERS", 3)
    lab.make_writable(peer)
    peer.topics["t"] = None
    lab.log.take()
    del lab.pubsub.connections[peer.id]
    for number in range(10):
        _ = lab.peers[b"%d" % number]
    lab.lose_stream(peer)
    assert lab.log.take() == ["no gossipsub", "lost"]


def test_a_connection_of_which_no_end_was_reported_leaves_nothing(
    lab: Lab, peer: RemotePeer
) -> None:
    """py-libp2p is silent on those that it cancels while they come up."""
    lab.connect(peer)
    lab.peers.note_episub(peer)
    del lab.pubsub.connections[peer.id]
    lab.connect(peer)
    assert now(peer) == (CLOSED, UNKNOWN)


@given(st.lists(st.integers(0, 6), max_size=100))
def test_sequence_ids_only_rise_though_receivers_are_forgotten(receivers: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(peers, "MAX_PEERS", 2)
        lab = Lab()
        last: dict[int, int] = {}
        for receiver in receivers:
            seq = lab.peers[b"%d" % receiver].next_sequence_id()
            assert seq > last.get(receiver, 1_700_000_000_000_000_000)
            last[receiver] = seq


async def test_a_connection_that_a_dial_brought_late_is_the_routers_to_close(
    autojump_clock: MockClock,
) -> None:
    """Dials that were given up, or crossed the peer's, left connections that nobody closed."""
    lab = Lab()
    for late, outbound, ours in ((5, True, True), (5, False, False), (60, True, False)):
        peer = lab.peers[bytes([late, outbound]) + KEY]
        peer.dialled_until = trio.current_time() + 15
        await trio.sleep(late)
        lab.pubsub.connections[peer.id] = [FakeConnection()]
        lab.peers.connection_opened(peer.id, probed=True, outbound=outbound)
        assert (peer.close_at is not None) == ours


def test_one_that_sent_a_frame_and_was_never_writable_is_lost(lab: Lab, peer: RemotePeer) -> None:
    """Topics take it for connected."""
    lab.connect(peer)
    lab.peers.note_episub(peer)
    assert now(peer) == (CLOSED, EPISUB)
    lab.disconnect(peer)
    assert now(peer) == (CLOSED, UNKNOWN)
    assert lab.log.take() == ["lost"]
