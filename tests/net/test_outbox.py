"""Per-peer backlogs: order, bounds, and what is told of drops."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.rpc_queue import RpcQueue
from trio.testing import MockClock

from episub_router import RouterParams
from episub_router.net.counters import Counters, Reason
from episub_router.net.outbox import Outbox
from episub_router.protocol import messages as m

PEER = b"\x00\x24\x08\x01\x12\x20" + bytes(32)
PARAMS = RouterParams(backlog_frames=4, backlog_bytes=1000)


def gossip(number: int, size: int = 10) -> m.Gossip:
    return m.Gossip(number, 1, None, size)


def control(number: int) -> m.Join:
    return m.Join(b"", number)


class Harness:
    """An outbox over a queue of `room` RPCs, which stand for themselves in `data`."""

    def __init__(self, room: int = 2, params: RouterParams = PARAMS) -> None:
        self.queue = RpcQueue(max_size=room, max_message_size=500)
        self.pubsub: Any = SimpleNamespace(peers={}, peer_queues={})
        self.counters = Counters()
        self.dropped: list[object] = []
        self.outbox = Outbox(self.pubsub, params, self.counters, self.encode, self.on_dropped)

    def open(self) -> None:
        self.pubsub.peers[ID(PEER)] = object()
        self.pubsub.peer_queues[ID(PEER)] = self.queue

    def encode(self, peer: bytes, topic: str, messages: tuple[m.Message, ...]) -> rpc_pb2.RPC:
        [message] = messages
        if isinstance(message, m.Graft):
            raise TypeError("ids on the wire are bytes")
        size = message.size if isinstance(message, m.Gossip) else 0
        name = f"g{message.id}" if isinstance(message, m.Gossip) else _name(message)
        text = f"{topic} {name}".encode() + bytes(size)
        return rpc_pb2.RPC(publish=[rpc_pb2.Message(data=text)])

    def on_dropped(self, peer: bytes, topic: str, message: m.Gossip) -> None:
        self.dropped.append(message.id)

    def send(self, *messages: m.Message, topic: str = "t") -> list[bool]:
        return [self.outbox.send(PEER, topic, (message,)) for message in messages]

    def sent(self) -> list[str]:
        """Takes everything out of the queue."""
        texts = []
        while len(self.queue):
            rpc = self.queue._queue.pop()
            assert rpc is not None
            texts.append(rpc.publish[0].data.rstrip(b"\0").decode())
        return texts


def _name(message: m.Message) -> str:
    return f"c{message.ttl}" if isinstance(message, m.Join) else type(message).__name__


def test_frames_go_straight_into_the_queue_control_first() -> None:
    harness = Harness(room=3)
    harness.open()
    assert harness.send(gossip(1), control(1), gossip(2)) == [True] * 3
    assert harness.sent() == ["t c1", "t g1", "t g2"]
    assert not harness.outbox.holds(PEER)
    assert harness.counters[Reason.FRAMES_SENT] == 3
    assert harness.counters[Reason.PAYLOADS_SENT] == 2


def test_frames_wait_for_a_peer_that_is_not_writable_yet() -> None:
    harness = Harness(room=5)
    assert harness.send(gossip(1), control(1)) == [False, False]
    harness.outbox.flush(PEER)
    assert harness.outbox.holds(PEER)
    harness.open()
    harness.outbox.flush(PEER)
    assert harness.sent() == ["t c1", "t g1"]
    assert not harness.outbox.holds(PEER)


def test_order_is_kept_when_the_queue_is_full() -> None:
    harness = Harness(room=2)
    harness.open()
    harness.send(*map(gossip, range(5)), control(1), control(2))
    sent = []
    while harness.outbox.holds(PEER):
        sent += harness.sent()
        harness.outbox.flush(PEER)
    sent += harness.sent()
    assert [text for text in sent if "g" in text] == [f"t g{n}" for n in range(5)]
    assert [text for text in sent if "c" in text] == ["t c1", "t c2"]
    assert sent.index("t c2") < sent.index("t g2")


def test_new_frames_do_not_overtake_those_that_wait() -> None:
    harness = Harness(room=1)
    harness.open()
    harness.send(gossip(1), gossip(2))
    assert harness.sent() == ["t g1"]
    harness.send(gossip(3))
    harness.outbox.flush(PEER)
    assert harness.sent() == ["t g2"]


def test_a_full_backlog_reports_the_payloads_that_it_drops() -> None:
    harness = Harness(room=1)
    harness.open()
    harness.send(*map(gossip, range(8)))
    assert harness.dropped == [5, 6, 7]
    harness.send(*map(control, range(6)))
    assert harness.dropped == [5, 6, 7]
    assert harness.counters[Reason.BACKLOG_FULL] == 5


def test_payload_bytes_are_bounded_too() -> None:
    harness = Harness()
    harness.send(gossip(1, 600), gossip(2, 401), gossip(3, 400), control(1))
    assert harness.dropped == [2]
    harness.open()
    harness.send(gossip(4, 1))
    assert harness.dropped == [2, 4]


def test_what_can_never_be_sent_is_counted_and_not_retried() -> None:
    harness = Harness()
    harness.open()
    assert harness.send(gossip(1, 600), m.Graft((7,))) == [True, True]
    assert harness.counters[Reason.OVERSIZE] == 1
    assert harness.counters[Reason.UNENCODABLE] == 1
    assert harness.dropped == []
    assert not harness.outbox.holds(PEER)
    assert harness.sent() == []


def test_what_waits_for_a_peer_that_is_gone_is_forgotten() -> None:
    harness = Harness()
    harness.send(gossip(1), control(1))
    assert harness.outbox.discard(PEER)
    assert not harness.outbox.discard(PEER)
    assert harness.counters[Reason.UNDELIVERABLE] == 2
    harness.open()
    harness.outbox.flush(PEER)
    assert harness.sent() == []


def test_a_blacklisted_peer_is_not_writable_though_its_queue_stands() -> None:
    harness = Harness()
    harness.open()
    del harness.pubsub.peers[ID(PEER)]
    assert not harness.outbox.is_writable(PEER)


def test_leaving_a_topic_keeps_its_goodbyes_and_what_other_topics_said() -> None:
    harness = Harness(room=9)
    harness.send(gossip(1), control(1), m.Disconnect())
    harness.send(gossip(2, 900), topic="u")
    harness.outbox.leave("t")
    harness.send(gossip(3, 100), topic="u")
    assert harness.dropped == []
    harness.open()
    harness.outbox.flush(PEER)
    assert harness.sent() == ["t Disconnect", "u g3"]
    assert harness.counters[Reason.OVERSIZE] == 1


async def test_backlogs_drain_as_the_queue_does(autojump_clock: MockClock) -> None:
    harness = Harness(room=2, params=RouterParams())
    harness.open()
    harness.send(*map(gossip, range(20)))
    sent = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.outbox.run)
        while harness.outbox.holds(PEER):
            sent += harness.sent()
            await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert sent + harness.sent() == [f"t g{number}" for number in range(20)]


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf")])
def test_parameters_that_make_no_sense_are_named(value: float) -> None:
    with pytest.raises(ValueError, match="dial_timeout must be more than 0"):
        RouterParams(dial_timeout=value)
