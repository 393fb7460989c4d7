"""A pubsub stream dies while its connection lives.

`a` loses its stream to `b`. The stock class then forgets what `b` subscribed to and never
hears of it again, because `b`'s own stream, over which it subscribed, is still whole.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from libp2p.abc import INetStream, IPubsubRouter
from libp2p.custom_types import TProtocol
from libp2p.network.exceptions import SwarmException
from libp2p.network.stream.net_stream import NetStream
from libp2p.peer.id import ID
from libp2p.pubsub.floodsub import FloodSub
from libp2p.pubsub.pb.rpc_pb2 import RPC
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.rpc_queue import RpcQueue
from libp2p.stream_muxer.yamux.yamux import YamuxStream
from libp2p.utils import encode_varint_prefixed

from episub_router import PubsubDrop, ResilientPubsub
from episub_router.util.connections import is_connected
from tests.hosts import PATIENCE, Node, connect, eventually, receive, running_nodes
from tests.hosts import subscribe_all as subscribe
from tests.pubsub.frames import (
    GARBAGE,
    TOPIC,
    flood,
    open_new,
    pair,
    publishing,
    resilient,
    send,
    signed,
    subscribing,
)

pytestmark = pytest.mark.hosts


@asynccontextmanager
async def two_nodes(
    class_of_a: type[Pubsub],
    class_of_b: type[Pubsub],
    router: Callable[[], IPubsubRouter] = flood,
) -> AsyncIterator[tuple[Node, Node]]:
    async with (
        running_nodes(1, router=router, pubsub_class=class_of_a) as [a],
        running_nodes(1, router=router, pubsub_class=class_of_b, seed=1) as [b],
    ):
        await connect(a, b)
        await subscribe([a, b], TOPIC)
        yield a, b


Loss = Callable[[Any], Awaitable[None]]
LOSSES = pytest.mark.parametrize("loss", [NetStream.reset, NetStream.close], ids=["reset", "close"])


async def lose_stream(a: Node, b: Node, loss: Loss = NetStream.reset) -> None:
    """End `a`'s stream to `b`, have `a` notice by writing, and wait until it has a new one."""
    old = a.pubsub.peers[b.id]
    await loss(old)
    await a.pubsub.publish(TOPIC, b"lost")
    await eventually(lambda: a.pubsub.peers.get(b.id, old) is not old)


async def settle(a: Node, b: Node) -> None:
    """Let all that `a` and `b` have to tell each other because of the new stream arrive.

    First `b` has taken in `a`'s hello, then `a` whatever `b` said because of it.
    """
    await a.pubsub.subscribe("settling")
    await b.pubsub.wait_for_subscription(a.id, "settling")
    await b.pubsub.subscribe("settled")
    await a.pubsub.wait_for_subscription(b.id, "settled")


@LOSSES
async def test_stock_partitions(loss: Loss) -> None:
    async with two_nodes(Pubsub, Pubsub) as (a, b):
        await lose_stream(a, b, loss)
        await settle(a, b)
        assert b.id not in a.pubsub.peer_topics.get(TOPIC, ())


@LOSSES
@pytest.mark.parametrize(
    ("class_of_a", "class_of_b"),
    [(ResilientPubsub, Pubsub), (Pubsub, ResilientPubsub), (ResilientPubsub, ResilientPubsub)],
)
async def test_one_resilient_end_mends_it(
    loss: Loss,
    class_of_a: type[Pubsub],
    class_of_b: type[Pubsub],
) -> None:
    async with two_nodes(class_of_a, class_of_b) as (a, b):
        for _ in range(2):
            await lose_stream(a, b, loss)
            await settle(a, b)
            assert b.id in a.pubsub.peer_topics[TOPIC]
            assert a.pubsub._peer_subscription_count[b.id] == 2
        at_a, at_b = (node.pubsub.subscribed_topics_receive[TOPIC] for node in (a, b))
        for sender, subscription in ((a, at_b), (b, at_a)):
            await sender.pubsub.publish(TOPIC, b"after")
            while (await receive(subscription))[0].data != b"after":
                pass


async def test_two_connections_at_once_have_one_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two streams the peer resets the older one, and loses what was queued for it."""
    async with two_nodes(ResilientPubsub, ResilientPubsub) as (a, b):
        pubsub = resilient(a)
        opened = []
        new_stream = a.host.new_stream

        async def counted(peer_id: ID, protocols: Sequence[TProtocol]) -> INetStream:
            opened.append(peer_id)
            return await new_stream(peer_id, protocols)

        monkeypatch.setattr(a.host, "new_stream", counted)
        pubsub.lose_peer_stream(b.id)
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(pubsub.open_peer_stream, b.id)
        assert opened == [b.id]
        await eventually(lambda: b.id not in pubsub._opening)  # Pubsub's own retry is a fourth
        await settle(a, b)


class Counting(ResilientPubsub):
    """Counts the streams that it reads."""

    reading = 0

    async def stream_handler(self, stream: INetStream) -> None:
        self.reading += 1
        try:
            await super().stream_handler(stream)
        finally:
            self.reading -= 1


async def test_the_tasks_of_superseded_streams_end() -> None:
    async with two_nodes(Pubsub, Counting) as (a, b):
        assert isinstance(b.pubsub, Counting)
        pubsub = b.pubsub
        newest = [await open_new(a, b) for _ in range(5)][-1]
        await eventually(lambda: pubsub.drops == {PubsubDrop.STREAM_SUPERSEDED: 5})
        await eventually(lambda: pubsub.reading == 1)
        await send(newest, publishing(signed(a, 1, b"newest")))
        [msg] = await receive(pubsub.subscribed_topics_receive[TOPIC])
        assert msg.data == b"newest"


async def test_the_tasks_of_superseded_streams_end_beyond_their_peers_budget() -> None:
    """What such a peer sent waits for its budget, and many streams would have a frame each."""
    async with two_nodes(Pubsub, Counting) as (a, b):
        assert isinstance(b.pubsub, Counting)
        pubsub = b.pubsub
        pubsub._frames.costs.charge(a.id, 1000.0)
        for number in range(5):
            await send(await open_new(a, b), publishing(signed(a, number, b"")))
        await eventually(lambda: pubsub.drops == {PubsubDrop.STREAM_SUPERSEDED: 5})
        await eventually(lambda: pubsub.reading == 1)


class OneFrame:
    """A stream over another connection, which brings a subscription and goes on."""

    metric_send_channel = None

    def __init__(self, older: INetStream) -> None:
        self.muxed_conn = older.muxed_conn
        self._read = False

    async def read(self, n: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        if self._read:
            await trio.sleep_forever()
        self._read = True
        rpc = subscribing("new")
        return encode_varint_prefixed(rpc.SerializeToString())


async def test_a_new_stream_is_read_while_the_older_ones_reset_cannot_be_written() -> None:
    async with two_nodes(Pubsub, ResilientPubsub) as (a, b):
        [connection] = b.host.get_network().get_connections(a.id)
        stuck: Any = connection.muxed_conn
        new: Any = OneFrame(next(iter(connection.get_streams())))
        async with trio.open_nursery() as nursery:
            async with stuck._write_lock:
                nursery.start_soon(b.pubsub.stream_handler, new)
                await b.pubsub.wait_for_subscription(a.id, "new", timeout=PATIENCE)
            nursery.cancel_scope.cancel()


def depth(pubsub: Pubsub) -> int:
    """Of the tree of the service's tasks."""

    def of(task: Any) -> int:
        return 1 + max(map(of, getattr(task, "children", ())), default=0)

    manager: Any = pubsub.manager
    return max(map(of, manager._root_tasks))


async def test_lost_streams_leave_no_tasks() -> None:
    """Each sender was a child of the one before: after some 480 no task could be started."""
    async with two_nodes(ResilientPubsub, ResilientPubsub) as (a, b):
        await lose_stream(a, b)
        before = depth(a.pubsub)
        for _ in range(10):
            await lose_stream(a, b)
        assert depth(a.pubsub) <= before


async def test_what_was_queued_goes_out_on_the_next_stream() -> None:
    async with two_nodes(ResilientPubsub, ResilientPubsub) as (a, b):
        await a.pubsub.peers[b.id].reset()
        for number in range(3):
            a.pubsub.peer_queues[b.id].push(publishing(signed(a, number, b"%d" % number)))
        received = await receive(b.pubsub.subscribed_topics_receive[TOPIC], 3)
        assert [msg.data for msg in received] == [b"0", b"1", b"2"]
        assert resilient(a)._unsent == {}


async def test_what_ends_two_streams_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A peer may reset each stream on which it comes, as for its size."""
    async with two_nodes(ResilientPubsub, ResilientPubsub) as (a, b):
        refused = 0
        write = YamuxStream.write

        async def refuse(stream: YamuxStream, data: bytes) -> None:
            nonlocal refused
            if b"poison" in data:
                refused += 1
                await stream.reset()
            await write(stream, data)

        monkeypatch.setattr(YamuxStream, "write", refuse)
        a.pubsub.peer_queues[b.id].push(publishing(signed(a, 1, b"poison")))
        await eventually(lambda: refused == 2)
        await eventually(lambda: b.id in a.pubsub.peers)
        await settle(a, b)
        assert refused == 2


async def test_a_stream_that_fails_once_it_was_replaced_leaves_the_new_one() -> None:
    async with two_nodes(ResilientPubsub, ResilientPubsub) as (a, b):
        pubsub = a.pubsub
        old = pubsub.peers[b.id]
        await lose_stream(a, b)
        new = pubsub.peers[b.id]
        failing = RpcQueue()
        failing.push(RPC())
        failing.close()
        await pubsub.handle_sending_messages(b.id, old, failing)
        assert pubsub.peers.get(b.id) is new


async def test_a_peer_that_hung_up_is_not_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    """A swarm dials those to whom a stream is opened, whatever the router allows."""
    async with two_nodes(ResilientPubsub, ResilientPubsub) as (a, b):
        pubsub = resilient(a)
        dialled: list[ID] = []

        async def dial(peer_id: ID) -> None:
            dialled.append(peer_id)
            raise SwarmException("counted")

        monkeypatch.setattr(a.host.get_network(), "dial_peer", dial)
        async with pubsub._opening.held(b.id):
            pubsub.lose_peer_stream(b.id)
            await a.host.disconnect(b.id)
            await eventually(lambda: not is_connected(a.host, b.id))
        await eventually(lambda: not pubsub._peer_stream_retries_pending)
        assert dialled == []


async def test_a_stream_reset_for_garbage_opens_again() -> None:
    async with two_nodes(Pubsub, ResilientPubsub) as (a, b):
        old = a.pubsub.peers[b.id]
        await old.write(GARBAGE)
        pubsub = resilient(b)
        await eventually(lambda: pubsub.drops == {PubsubDrop.FRAME_MALFORMED: 1})
        assert isinstance(old, NetStream)
        muxed = old.muxed_stream
        assert isinstance(muxed, YamuxStream)
        await eventually(lambda: muxed.reset_received)
        await a.pubsub.publish(TOPIC, b"lost")
        await eventually(lambda: a.pubsub.peers.get(b.id, old) is not old)
        await settle(a, b)
        await a.pubsub.publish(TOPIC, b"after")
        [msg] = await receive(b.pubsub.subscribed_topics_receive[TOPIC])
        assert msg.data == b"after"


async def test_an_unsubscription_is_not_undone_by_a_new_stream() -> None:
    async with two_nodes(ResilientPubsub, ResilientPubsub) as (a, b):
        await b.pubsub.unsubscribe(TOPIC)
        await eventually(lambda: b.id not in a.pubsub.peer_topics.get(TOPIC, ()))
        await b.pubsub.subscribe("u")
        await a.pubsub.wait_for_subscription(b.id, "u")
        old = a.pubsub.peers[b.id]
        await old.reset()
        await a.pubsub.publish("u", b"lost")
        await eventually(lambda: a.pubsub.peers.get(b.id, old) is not old)
        await settle(a, b)
        assert b.id not in a.pubsub.peer_topics.get(TOPIC, ())
        assert b.id in a.pubsub.peer_topics["u"]


@pytest.mark.parametrize("own_stream_first", [False, True])
async def test_a_peer_that_disconnects_is_forgotten(own_stream_first: bool) -> None:
    async with pair() as (a, b):
        await subscribe([a, b], TOPIC)
        pubsub = resilient(a)
        if own_stream_first:
            [connection] = a.host.get_network().get_connections(b.id)
            before = len(connection.get_streams())
            await b.pubsub.peers[a.id].reset()
            await eventually(lambda: len(connection.get_streams()) < before)
        await b.kill()
        await eventually(lambda: b.id not in pubsub.peers)
        await eventually(lambda: b.id not in pubsub.peer_topics.get(TOPIC, ()))
        assert pubsub._greeted == set()
        assert pubsub._resuming == set()


class RecordingFlood(FloodSub):
    """A router that notes each notification of a peer."""

    def __init__(self) -> None:
        super().__init__(flood().get_protocols())
        self.told: list[str] = []

    def add_peer(self, peer_id: ID, protocol_id: TProtocol | None) -> None:
        super().add_peer(peer_id, protocol_id)
        self.told.append("added")

    def remove_peer(self, peer_id: ID) -> None:
        super().remove_peer(peer_id)
        self.told.append("removed")

    async def on_peer_subscribed(self, peer_id: ID, topic: str) -> None:
        await super().on_peer_subscribed(peer_id, topic)
        self.told.append(f"subscribed to {topic}")


async def test_the_router_is_told_again_of_the_subscriptions() -> None:
    async with two_nodes(ResilientPubsub, Pubsub, RecordingFlood) as (a, b):
        assert isinstance(a.router, RecordingFlood)
        told = a.router.told
        await eventually(lambda: len(told) == 2)
        told.clear()
        await lose_stream(a, b)
        await settle(a, b)
        assert told[:3] == ["removed", "added", f"subscribed to {TOPIC}"]
