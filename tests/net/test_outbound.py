"""Backlogs: order, bounds, what is dropped, and peers that take nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import Mock

import pytest
import trio
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.rpc_queue import OutBoundQueueSize, RpcQueue
from trio.testing import MockClock

from episub_router import RouterParams
from episub_router.fallback.queues import OutgoingRpc
from episub_router.net.connections.silence import LOOK_INTERVAL
from episub_router.net.counters import Ordinary, Reason
from episub_router.net.outbound import Outbound
from episub_router.net.peers import PeerState, RemotePeer
from episub_router.protocol import messages as m
from episub_router.protocol.piece_messages import Piece
from tests.net.fakes import MESHSUB, Lab, pop

PEER = b"\x00\x24\x08\x01\x12\x20" + bytes(32)
OTHER = b"\x00\x24\x08\x01\x12\x20" + bytes(31) + b"\x01"
PARAMS = RouterParams(backlog_frames=4, backlog_bytes=1000)


def gossip(number: int, size: int = 10) -> m.Gossip:
    return m.Gossip(number, 1, None, size)


def control(number: int) -> m.Join:
    return m.Join(b"", number)


def rpc(number: int) -> rpc_pb2.RPC:
    return rpc_pb2.RPC(publish=[rpc_pb2.Message(data=b"r%d" % number)])


class Harness(Lab):
    """An outbox whose RPCs stand for themselves in `data`."""

    def __init__(self, params: RouterParams = PARAMS) -> None:
        super().__init__(params)
        framer: Any = self
        self.outbound = Outbound(self.peers, framer, params, self.counters, self.log.pieces_sent)
        self.peers.listen(self.outbound)
        self.listen()
        self.peer = self.peers[PEER]
        self.encoded: list[m.Message] = []

    def open(self, room: int = 32) -> RpcQueue:
        self.connect(self.peer)
        return self.open_stream(self.peer, room=room)

    def record(self, peer: bytes) -> None:
        """As a framer that knows no addresses."""

    def encode(self, peer: RemotePeer, topic: str, messages: tuple[m.Message, ...]) -> rpc_pb2.RPC:
        [message] = messages
        if isinstance(message, m.Graft):
            raise TypeError("ids on the wire are bytes")
        self.encoded.append(message)
        size = message.size if isinstance(message, m.Gossip) else 0
        text = f"{topic} {_name(message)}".encode() + bytes(size)
        return rpc_pb2.RPC(publish=[rpc_pb2.Message(data=text)])

    def send(self, *messages: m.Message, topic: str = "t") -> list[bool]:
        return [self.outbound.send(self.peer, topic, (message,)) for message in messages]


def sent(queue: RpcQueue) -> list[str]:
    """Takes everything out of `queue`."""
    texts = []
    while len(queue):
        texts.append(pop(queue).publish[0].data.rstrip(b"\0").decode())
    return texts


def _name(message: m.Message) -> str:
    if isinstance(message, m.Gossip):
        return f"g{message.id}"
    return f"c{message.ttl}" if isinstance(message, m.Join) else type(message).__name__


@asynccontextmanager
async def running(harness: Harness) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.outbound.run)
        yield
        nursery.cancel_scope.cancel()


async def everything(harness: Harness, queue: RpcQueue) -> list[str]:
    """What is sent in the end, where `queue` is emptied ten times a second."""
    texts = []
    async with running(harness):
        while harness.peer.backlog:
            texts += sent(queue)
            await trio.sleep(0.1)
    return texts + sent(queue)


async def test_frames_go_straight_into_the_queue_control_first() -> None:
    harness = Harness()
    queue = harness.open()
    assert harness.send(gossip(1), control(1), gossip(2)) == [True] * 3
    assert sent(queue) == ["t c1", "t g1", "t g2"]
    assert not harness.peer.backlog
    assert harness.counters[Ordinary.FRAMES_SENT] == 3
    assert harness.counters[Ordinary.PAYLOADS_SENT] == 2


async def test_frames_wait_for_a_peer_that_is_not_writable_yet() -> None:
    harness = Harness()
    assert harness.send(gossip(1), control(1)) == [True, True]
    assert harness.log.take() == ["dial"]
    assert len(harness.peer.backlog) == 2
    assert sent(harness.open()) == ["t c1", "t g1"]
    assert not harness.peer.backlog


async def test_order_is_kept_when_the_queue_is_full(autojump_clock: MockClock) -> None:
    harness = Harness(RouterParams())
    queue = harness.open(room=2)
    harness.send(*map(gossip, range(20)), control(1), control(2))
    texts = await everything(harness, queue)
    assert [text for text in texts if "g" in text] == [f"t g{n}" for n in range(20)]
    assert [text for text in texts if "c" in text] == ["t c1", "t c2"]
    assert texts.index("t c2") < texts.index("t g2")


async def test_new_frames_do_not_overtake_those_that_wait() -> None:
    harness = Harness()
    queue = harness.open(room=1)
    harness.send(gossip(1), gossip(2))
    pop(queue)
    harness.send(gossip(3))
    assert sent(queue) == ["t g2", "t g3"]


async def test_waiting_for_room_takes_no_sequence_ids() -> None:
    """A frame is encoded once, when it enters the queue: looking at a full queue would use ids
    up, and what then goes would look like replays to a receiver with a window of 128."""
    harness = Harness(RouterParams())
    queue = harness.open()
    harness.send(*map(gossip, range(OutBoundQueueSize)), gossip(100), control(1))
    for _ in range(200):
        harness.peer.backlog.flush(queue)
    assert len(harness.encoded) == len(queue) == OutBoundQueueSize
    pop(queue)
    pop(queue)
    assert harness.encoded[-2:] == [control(1), gossip(100)]
    assert not harness.peer.backlog


def piece(index: int) -> Piece:
    return Piece(b"large", bytes(32), index, b"x", (), 1)


def some_pieces(harness: Harness, count: int) -> None:
    for index in range(count):
        assert harness.outbound.send_piece(harness.peer, "t", piece(index))
    harness.outbound.flush(harness.peer)


async def test_pieces_are_sent_once_all_of_a_step_were_handed_over() -> None:
    """Else a message is reported as sent after its first piece, though a lane may refuse others."""
    harness = Harness()
    queue = harness.open()
    some_pieces(harness, 3)
    assert "pieces sent" not in harness.log.take()  # one waits
    await queue.pop()
    assert harness.log.take() == ["pieces sent"]


async def test_what_waits_follows_what_is_taken() -> None:
    harness = Harness()
    queue = harness.open()
    some_pieces(harness, 5)
    for waiting in (2, 1, 0):
        assert len(queue) == 2
        await queue.pop()
        assert harness.peer.backlog.pieces == waiting
    harness.send(*map(gossip, range(OutBoundQueueSize)), control(1))
    assert len(harness.peer.backlog) == 3
    await queue.pop()
    assert harness.encoded[-1] == control(1), "control goes first"


async def test_a_queue_that_takes_another_ones_place_gets_what_waits(
    autojump_clock: MockClock,
) -> None:
    """The stock class may open two streams at once, and says nothing of it."""
    harness = Harness()
    harness.open()
    some_pieces(harness, 5)
    async with running(harness):
        queue = harness.pubsub.peer_queues[harness.peer.id] = RpcQueue()
        await trio.sleep(LOOK_INTERVAL * 1.1)
        assert (len(queue), harness.peer.backlog.pieces) == (2, 1)
        await queue.pop()
        assert (len(queue), harness.peer.backlog.pieces) == (2, 0)


async def test_what_fails_while_a_queue_is_refilled_does_not_stop_its_stream() -> None:
    harness = Harness()
    queue = harness.open(room=1)
    harness.send(gossip(1), gossip(2))
    harness.peers.queue = Mock(side_effect=KeyError)  # type: ignore[method-assign]
    assert await queue.pop() is not None
    assert harness.counters[Reason.ERROR] == 1


async def test_a_full_backlog_takes_no_more() -> None:
    harness = Harness()
    harness.open(room=1)
    assert harness.send(*map(gossip, range(68))) == [True] * 65 + [False] * 3
    assert harness.send(*map(control, range(6))) == [True] * 4 + [False] * 2
    assert harness.counters[Reason.BACKLOG_FULL] == 5


def test_payload_bytes_are_bounded_too() -> None:
    harness = Harness()
    messages = gossip(1, 600), gossip(2, 401), gossip(3, 400), control(1)
    assert harness.send(*messages) == [True, False, True, True]


def test_what_can_never_be_sent_is_counted_and_not_retried() -> None:
    harness = Harness()
    queue = harness.open()
    assert harness.send(gossip(1, 600), m.Graft((7,))) == [True, True]
    assert harness.counters[Reason.OVERSIZE] == 1
    assert harness.counters[Reason.UNENCODABLE] == 1
    assert not harness.peer.backlog
    assert sent(queue) == []


def test_nothing_is_held_for_a_peer_of_gossipsub() -> None:
    harness = Harness()
    harness.outbound.trace = trace = Mock()
    queue = harness.make_writable(harness.peer, MESHSUB)
    assert harness.send(gossip(1)) == [False]
    assert sent(queue) == []
    assert harness.counters[Reason.UNDELIVERABLE] == 1
    trace.payload_dropped.assert_called_once_with(1, "t", 10, PEER)


def test_frames_to_a_blacklisted_peer_are_held_until_the_dialer_gives_up() -> None:
    harness = Harness()
    queue = harness.open()
    del harness.pubsub.peers[harness.peer.id]
    harness.log.take()
    harness.send(gossip(1))
    assert (sent(queue), harness.peer.state) == ([], PeerState.INTERRUPTED)
    assert harness.log.take() == ["dial"]
    harness.peers.dial_failed(harness.peer)
    assert harness.log.take() == ["dial failed", "lost"]
    assert harness.counters[Reason.UNDELIVERABLE] == 1


async def test_leaving_a_topic_keeps_its_goodbyes_and_other_topics() -> None:
    harness = Harness()
    harness.send(gossip(1), control(1), m.Disconnect())
    harness.send(gossip(2, 400), topic="u")
    harness.outbound.forget_topic("t")
    assert harness.send(gossip(3, 600), topic="u") == [True], "there is room again"
    assert sent(harness.open()) == ["t Disconnect", "u g2"]


async def test_gossipsub_has_the_same_backlog(autojump_clock: MockClock) -> None:
    harness = Harness(RouterParams(backlog_frames=2))
    queue = harness.open_stream(harness.peer, MESHSUB, room=2)
    pushed = [
        harness.outbound.send_rpc(harness.peer, OutgoingRpc(rpc(n), is_control=n == 9))
        for n in range(42)
    ]
    assert pushed == [True] * 35 + [False] * 7
    assert harness.counters[Reason.BACKLOG_FULL] == 7
    rest = [f"r{n}" for n in range(1, 35) if n != 9]
    assert await everything(harness, queue) == ["r0", "r9", *rest]


def test_gossipsub_has_no_backlog_without_a_stream() -> None:
    harness = Harness()
    assert not harness.outbound.send_rpc(harness.peer, OutgoingRpc(rpc(1), True))


@pytest.mark.parametrize("side", ["episub", "gossipsub"])
async def test_a_peer_that_takes_nothing_loses_its_backlog(
    autojump_clock: MockClock, side: str
) -> None:
    """It counts again once it goes on with what is in Pubsub's queue."""
    harness = Harness(RouterParams(stall_timeout=5))
    peer = harness.peer
    if side == "episub":
        queue = harness.open(room=2)
        harness.send(*map(gossip, range(10)))
    else:
        queue = harness.open_stream(peer, MESHSUB, room=2)
        for number in range(10):
            harness.outbound.send_rpc(peer, OutgoingRpc(rpc(number), False))
    harness.log.take()
    async with running(harness):
        await trio.sleep(5 - LOOK_INTERVAL)
        assert not peer.stalled
        assert len(peer.backlog) == 8
        await trio.sleep(3 * LOOK_INTERVAL)
        assert peer.stalled
        assert not peer.backlog
        with trio.fail_after(0.5):
            await harness.outbound.wait_for_room(0)
        assert harness.log.take() == (["lost"] if side == "episub" else [])
        assert harness.counters[Reason.PEER_STALLED] == 1
        assert harness.counters[Reason.UNDELIVERABLE] == 8
        assert not harness.outbound.send_rpc(peer, OutgoingRpc(rpc(10), True))
        await trio.sleep(100)
        assert harness.counters[Reason.PEER_STALLED] == 1
        pop(queue)
        await trio.sleep(2 * LOOK_INTERVAL)
        assert not peer.stalled
        assert peer.state is PeerState.WRITABLE
        assert harness.log.take() == (["writable"] if side == "episub" else [])


async def test_a_peer_that_takes_no_pieces_stalls_as_well(autojump_clock: MockClock) -> None:
    harness = Harness(RouterParams(stall_timeout=5))
    harness.open()
    some_pieces(harness, 3)
    async with running(harness):
        await trio.sleep(5 + 3 * LOOK_INTERVAL)
    assert harness.peer.stalled
    assert not harness.peer.backlog.pieces


async def test_a_slow_peer_is_no_stalled_one(autojump_clock: MockClock) -> None:
    harness = Harness(RouterParams(stall_timeout=5))
    queue = harness.open(room=2)
    harness.send(*map(gossip, range(10)))
    async with running(harness):
        while len(queue):
            await trio.sleep(4.5)
            pop(queue)
    assert harness.counters[Reason.PEER_STALLED] == 0


async def test_a_publisher_does_not_wait_for_a_peer_that_takes_nothing(
    autojump_clock: MockClock,
) -> None:
    """Half of the nodes published nothing more, from a minute and a half into a silent cut on."""
    harness = Harness(RouterParams(stall_timeout=5))
    harness.open()
    other = harness.peers[OTHER]
    taking: Any = harness.make_writable(other)

    async def take() -> None:
        while True:
            pop(taking)
            await trio.sleep(0.01)

    waits = []
    async with running(harness), trio.open_nursery() as nursery:
        nursery.start_soon(take)
        for number in range(100):
            for peer in (harness.peer, other):
                if harness.peers.is_writable(peer):
                    harness.outbound.send(peer, "t", (gossip(number),))
            start = trio.current_time()
            await harness.outbound.wait_for_room(16)
            waits.append(trio.current_time() - start)
        nursery.cancel_scope.cancel()
    assert max(waits) <= 5
    assert sum(waits) <= 5 + 3 * LOOK_INTERVAL, "once, for as long as it may only be slow"


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_parameters_that_make_no_sense_are_named(value: float) -> None:
    with pytest.raises(ValueError, match="dial_timeout must be more than 0"):
        RouterParams(dial_timeout=value)
