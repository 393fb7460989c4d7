"""SdsChannel on real hosts over loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import trio
import trio.lowlevel
from libp2p.custom_types import TProtocol
from libp2p.network.stream.exceptions import StreamError
from libp2p.peer.id import ID
from libp2p.pubsub.floodsub import PROTOCOL_ID, FloodSub
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import get_content_addressed_msg_id

from episub_router.pb import sds_pb2
from episub_router.sds import (
    AckStatus,
    ChannelMessage,
    MemoryStore,
    NotAcknowledgedError,
    Rejected,
    Retention,
    SdsChannel,
    SdsParams,
    SqliteStore,
    StoreError,
    StoreFullError,
    StoreNode,
    UnreadDropped,
)
from episub_router.sds.net import topic
from episub_router.sds.net.access import access_of
from episub_router.sds.net.driver import ChannelDriver
from episub_router.sds.net.exchange import ExchangeError, ask
from episub_router.sds.net.intake import Intake, sign
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol import outgoing
from episub_router.sds.protocol.entry import RangeHash
from episub_router.sds.protocol.message import (
    HistoryEntry,
    Message,
    MessageId,
    ReceivedMessage,
    Way,
)
from episub_router.sds.wire.codec import Codec, detach_origin
from episub_router.sds.wire.exchange import Request
from tests.hosts import PATIENCE, Node, connect_all, eventually, running_nodes
from tests.sds.sqlite import sqlite_limit

pytestmark = pytest.mark.hosts

TOPIC = "room"
QUICK = SdsParams(
    resend_interval=1.0,
    sync_interval=3.0,
    repair_min=1.0,
    repair_max=3.0,
)


def flood() -> FloodSub:
    return FloodSub([PROTOCOL_ID])


@asynccontextmanager
async def connected(count: int) -> AsyncIterator[list[Node]]:
    """Hosts, each connected with each."""
    async with running_nodes(count, router=flood) as nodes:
        await connect_all([*combinations(nodes, 2)])
        yield nodes


@asynccontextmanager
async def channels(
    nodes: list[Node], params: SdsParams = QUICK, **options: object
) -> AsyncIterator[list[SdsChannel]]:
    async with AsyncExitStack() as stack:
        yield [
            await stack.enter_async_context(
                SdsChannel(n.pubsub, TOPIC, params=params, **options)  # type: ignore[arg-type]
            )
            for n in nodes
        ]


async def next_of(channel: SdsChannel) -> ChannelMessage:
    with trio.fail_after(PATIENCE):
        return await channel.__anext__()


async def subscribed(*nodes: Node) -> None:
    for node in nodes:
        for other in nodes:
            if other is not node and other.id in node.pubsub.peers:
                await node.pubsub.wait_for_subscription(other.id, TOPIC, timeout=PATIENCE)


async def test_messages_receipts_and_one_order() -> None:
    async with connected(3) as nodes:
        a, b, c = nodes
        async with channels(nodes) as (one, two, three):
            await subscribed(*nodes)
            receipt = await one.send(b"hello")
            assert receipt.status is AckStatus.UNACKNOWLEDGED
            heard = await next_of(two)
            assert (heard.content, heard.sender, heard.missing) == (b"hello", str(a.id), ())
            assert heard.id == receipt.id
            answer = await two.send(b"hello yourself")
            assert (await next_of(three)).content == b"hello"
            assert (await next_of(three)).content == b"hello yourself"
            assert (await next_of(one)).content == b"hello yourself"
            await three.send(b"and I")
            with trio.fail_after(PATIENCE):
                await receipt.acknowledged(by=2)
                await answer.acknowledged(by=1)
            assert set(receipt.acked_by) == {str(b.id), str(c.id)}
            assert receipt.status is AckStatus.ACKNOWLEDGED
            await eventually(lambda: one.log == two.log == three.log and len(one.log) == 3)
            history = await two.history()
            assert [m.content for m in history] == [b"hello", b"hello yourself", b"and I"]
            assert [m.sender for m in history] == [str(n.id) for n in nodes]
            newest = await two.latest(limit=2)
            assert [m.content for m in newest] == [b"and I", b"hello yourself"]
            (oldest,) = await two.latest(before=two.log[1])
            assert oldest.content == b"hello"


async def test_ephemeral_messages_pass_at_once_and_leave_nothing() -> None:
    async with connected(2) as nodes, channels(nodes) as (one, two):
        await subscribed(*nodes)
        await one.send_ephemeral(b"typing")
        heard = await next_of(two)
        assert (heard.content, heard.ephemeral, heard.cursor) == (b"typing", True, "")
        assert two.log == one.log == ()


async def test_a_newcomer_gets_the_history_without_traffic() -> None:
    async with running_nodes(2, router=flood) as nodes, channels(nodes[:1]) as (one,):
        sent = [await one.send(b"%d" % n) for n in range(250)]
        await connect_all([(nodes[0], nodes[1])])
        async with channels(nodes[1:]) as (two,):
            got = [(await next_of(two)).id for _ in sent]
        assert got == [r.id for r in sent]


async def test_channels_of_one_topic_are_apart() -> None:
    async with (
        connected(2) as nodes,
        channels(nodes, channel_id="x") as (x1, x2),
        channels(nodes, channel_id="y") as (y1, y2),
    ):
        await subscribed(*nodes)
        await y1.send(b"in y")
        await x1.send(b"in x")
        assert (await next_of(x2)).content == b"in x"
        assert (await next_of(y2)).content == b"in y"
        with pytest.raises(ValueError, match="open already"):
            async with SdsChannel(nodes[0].pubsub, TOPIC, channel_id="x"):
                pass
        assert len(x1.log) == len(y1.log) == 1


async def test_the_topic_is_read_on_when_the_first_channel_closes() -> None:
    async with running_nodes(2, router=flood) as nodes, trio.open_nursery() as nursery:
        await connect_all([(nodes[0], nodes[1])])
        first_is_open, close_first = trio.Event(), trio.Event()

        async def first() -> None:
            async with SdsChannel(nodes[1].pubsub, TOPIC, channel_id="first", params=QUICK):
                first_is_open.set()
                await close_first.wait()

        nursery.start_soon(first)
        await first_is_open.wait()
        async with channels(nodes) as (one, two):
            close_first.set()
            await subscribed(*nodes)
            await one.send(b"still there?")
            assert (await next_of(two)).content == b"still there?"
        assert TOPIC not in nodes[1].pubsub.topic_ids


async def test_a_topic_with_another_reader_is_refused() -> None:
    async with running_nodes(1, router=flood) as (node,):
        await node.pubsub.subscribe(TOPIC)
        with pytest.raises(ValueError, match="divided between two readers"):
            async with SdsChannel(node.pubsub, TOPIC):
                pass


async def test_content_addressed_pubsub_is_refused() -> None:
    options = {"msg_id_constructor": get_content_addressed_msg_id}
    async with running_nodes(1, router=flood, pubsub_options=options) as (node,):
        with pytest.raises(ValueError, match="dropped as duplicates"):
            async with SdsChannel(node.pubsub, TOPIC):
                pass


async def test_state_survives_and_what_was_done_with_does_not_come_again(tmp_path: Path) -> None:
    async with connected(2) as nodes:
        store = SqliteStore(tmp_path / "two.db")
        async with channels(nodes[:1]) as (one,):
            async with SdsChannel(nodes[1].pubsub, TOPIC, params=QUICK, store=store) as two:
                await subscribed(*nodes)
                for n in range(3):
                    await one.send(b"%d" % n)
                assert (await next_of(two)).content == b"0"
                assert (await next_of(two)).content == b"1"
                mine = await two.send(b"mine")
                await eventually(lambda: len(two.log) == 4)
            store.close()
            await one.send(b"while you were away")
            again = SqliteStore(tmp_path / "two.db")
            async with SdsChannel(nodes[1].pubsub, TOPIC, params=QUICK, store=again) as two:
                # "1" was in hand, not done with, when we stopped
                heard = [(await next_of(two)).content for _ in range(3)]
                assert heard == [b"1", b"2", b"while you were away"]
                await eventually(lambda: one.log == two.log)
                assert mine.id in {item.id for item in two.log}
            again.close()
            with pytest.raises(StoreError, match="belongs to"):
                async with SdsChannel(
                    nodes[0].pubsub, TOPIC, store=SqliteStore(tmp_path / "two.db")
                ):
                    pass


async def test_events_tell_of_missing_lost_and_found() -> None:
    async with connected(2) as nodes:
        params = SdsParams(lost_after=0.5)
        async with channels(nodes, params) as (_, two), trio.open_nursery() as nursery:
            await subscribed(*nodes)
            events: list[object] = []

            async def collect() -> None:
                async for event in two.events():
                    events.append(event)

            nursery.start_soon(collect)
            await trio.testing.wait_all_tasks_blocked()
            await nodes[0].pubsub.publish(TOPIC, b"\xff no message")
            orphan, orphan_id = written_by(nodes[0], b"x", "nobody has this")
            await nodes[0].pubsub.publish(TOPIC, orphan)
            heard = await next_of(two)
            assert (heard.id, heard.missing) == (orphan_id, ("nobody has this",))
            assert fx.Missing(orphan_id, ("nobody has this",)) in events
            assert fx.Lost("nobody has this") in events
            rejected = [e for e in events if isinstance(e, Rejected)]
            assert [(r.by, r.reason) for r in rejected] == [(str(nodes[0].id), "malformed")]
            assert two.stats["malformed"] == 1
            nursery.cancel_scope.cancel()


async def test_nobody_speaks_for_another_sender() -> None:
    async with connected(3) as nodes:
        a, b, c = nodes
        async with channels([a, b]) as (one, two):
            await subscribed(a, b)
            receipt = await one.send(b"real")
            assert (await next_of(two)).content == b"real"
            forged, _ = written_by(b, b"I never said that", receipt.id)
            await c.pubsub.subscribe(TOPIC)
            await c.pubsub.wait_for_subscription(a.id, TOPIC, timeout=PATIENCE)
            await c.pubsub.publish(TOPIC, forged)
            await eventually(lambda: one.stats["not-proven"] == 1)
            assert str(c.id) not in receipt.acked_by
            assert len(one.log) == 1


async def test_requests_that_are_given_up_leave_the_connection_as_it_was() -> None:
    """A write of py-libp2p that is cancelled would end the connection for all that uses it."""
    async with connected(2) as nodes:
        a, b = nodes
        async with channels([a]):
            whole = RangeHash(None, None, 0, b"")
            request = Request(TOPIC, "0", fx.AskCompare("", bytes(16), (whole,)))
            before = b.host.get_network().get_connections(a.id)
            for n in range(60):
                with trio.move_on_after(n * 0.0005):
                    await ask(b.host, a.id, request, within=5, max_size=2**20)
            for n in range(60):
                with suppress(ExchangeError):
                    await ask(b.host, a.id, request, within=n * 0.0005, max_size=2**20)
            response = await ask(b.host, a.id, request, within=PATIENCE, max_size=2**20)
            assert response.comparison is not None
            assert b.host.get_network().get_connections(a.id) == before


async def test_a_forged_repair_is_dropped_though_a_proven_message_names_its_hash() -> None:
    """c speaks for itself and for b: its own message names what b is said to have written."""
    async with connected(3) as nodes:
        a, b, c = nodes
        params = replace(QUICK, lost_after=1.0)
        async with channels([a], params) as (one,):
            await c.pubsub.subscribe(TOPIC)
            await c.pubsub.wait_for_subscription(a.id, TOPIC, timeout=PATIENCE)
            forged, forged_id = written_by(b, b"b never said that")
            child, child_id = written_by(c, b"child", forged_id, lamport=6)
            typing = sds_pb2.SdsMessage(
                sender_id=str(b.id), message_id="e", channel_id="0", content=b"typing"
            )
            for data in (child, forged, typing.SerializeToString()):
                await c.pubsub.publish(TOPIC, data)
            heard = await next_of(one)
            assert (heard.id, heard.missing) == (child_id, (forged_id,))
            await eventually(lambda: one.stats["not-proven"] == 2)


async def test_a_repair_by_a_third_member_carries_its_authors_proof() -> None:
    """b repairs what a said, while a is away and direct streams have no answer."""
    async with running_nodes(3, router=flood) as nodes:
        a, b, c = nodes
        await connect_all([(a, b)])
        async with channels([a, b], replace(QUICK, repair=True)) as (one, two):
            await subscribed(a, b)
            first = await one.send(b"said by a")
            await eventually(lambda: len(two.log) == 1)
            await a.host.disconnect(b.id)
            await connect_all([(b, c)])
            await c.pubsub.subscribe(TOPIC)
            await subscribed(b, c)
            heard: list[rpc_pb2.Message] = []

            def collect(_: object, message: rpc_pb2.Message) -> bool:
                heard.append(message)
                return True

            c.pubsub.set_topic_validator(TOPIC, collect, is_async_validator=False)
            codec = Codec(QUICK)

            def repairs() -> list[rpc_pb2.Message]:
                raws = [(m, detach_origin(m.data)) for m in heard]
                return [
                    m
                    for m, (raw, origin) in raws
                    if origin and codec.decode(raw).message_id == first.id
                ]

            asked = 7
            while not repairs():  # what a still resent takes the place of an answer
                request = sds_pb2.SdsMessage(
                    sender_id=str(c.id),
                    channel_id="0",
                    lamport_timestamp=asked,
                    repair_request=[sds_pb2.HistoryEntry(message_id=first.id)],
                )
                await c.pubsub.publish(TOPIC, request.SerializeToString())
                with suppress(trio.TooSlowError):
                    await eventually(lambda: bool(repairs()), 10.0)
                asked += 1
            repair = repairs()[0]
            intake = Intake(TOPIC, codec, bind_sender=True)
            received = intake.broadcast(repair)
            assert isinstance(received, ReceivedMessage)
            assert (received.way, received.message.sender_id) == (Way.RELAYED, str(a.id))
            repair.data = repair.data.replace(b"said by a", b"said by b")
            received = intake.broadcast(repair)
            assert isinstance(received, ReceivedMessage)
            assert received.way is Way.UNPROVEN


async def test_a_relayed_history_is_checked_by_its_authors_signature() -> None:
    """c never meets a; b hands out what a signed."""
    async with running_nodes(3, router=flood) as nodes:
        a, b, c = nodes
        await connect_all([(a, b)])
        async with channels([a, b]) as (one, two):
            await subscribed(a, b)
            for n in range(5):
                await one.send(b"%d" % n)
            await eventually(lambda: len(two.log) == 5)
            await a.host.disconnect(b.id)
            await connect_all([(b, c)])
            async with channels([c]) as (three,):
                heard = [await next_of(three) for _ in range(5)]
            assert {m.sender for m in heard} == {str(a.id)}
            assert three.stats["not-proven"] == 0


async def test_closing_wakes_those_who_wait() -> None:
    async with running_nodes(1, router=flood) as (node,), trio.open_nursery() as nursery:
        closed: list[str] = []

        async def waits(name: str, what: Callable[[], object]) -> None:
            try:
                await what()  # type: ignore[misc]
            except trio.ClosedResourceError:
                closed.append(name)

        async with SdsChannel(node.pubsub, TOPIC) as channel:
            receipt = await channel.send(b"alone")
            nursery.start_soon(waits, "receipt", receipt.acknowledged)
            nursery.start_soon(waits, "iteration", channel.__anext__)
            await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(PATIENCE):
            while len(closed) < 2:
                await trio.lowlevel.checkpoint()
        assert sorted(closed) == ["iteration", "receipt"]
        assert receipt.status is AckStatus.UNACKNOWLEDGED


async def test_a_store_node_keeps_what_members_no_longer_can_tell(tmp_path: Path) -> None:
    async with running_nodes(3, router=flood) as nodes:
        a, b, keeper = nodes
        await connect_all([(a, keeper), (b, keeper)])
        path = tmp_path / "keeper.db"
        store = SqliteStore(path, Retention())
        small = replace(QUICK, log_limit=10)  # most of the history is on disk only
        async with (
            StoreNode(keeper.host, keeper.pubsub, store, topics=[TOPIC], params=small) as node,
            channels([a], channel_id="x") as (one,),
        ):
            await subscribed(a, keeper)
            sent = [await one.send(b"%d" % n) for n in range(130)]
            with trio.fail_after(PATIENCE):
                await sent[-1].acknowledged()
            await eventually(lambda: node.channels.get((TOPIC, "x")) == 10)
        store.close()
        store = SqliteStore(path, Retention())
        assert store.count('["room", "x"]') == 130
        async with (
            StoreNode(keeper.host, keeper.pubsub, store, topics=[TOPIC], params=small),
            channels([b], channel_id="x") as (two,),
        ):
            got = [await next_of(two) for _ in sent]
            assert [m.id for m in got] == [r.id for r in sent]
            response = await ask(
                b.host,
                keeper.id,
                Request(TOPIC, "x", fx.AskIds("", (sent[0].id, "none", sent[3].id))),
                within=PATIENCE,
                max_size=2**20,
            )
            assert [i.key[1] for i in response.items] == [sent[0].id, sent[3].id]
            assert response.unknown_ids == ("none",)
            compare = fx.AskCompare("", bytes(16), (RangeHash(None, None, 0, b""),))
            with pytest.raises(ExchangeError, match="UNKNOWN_CHANNEL: no channel 'y'"):
                await ask(b.host, keeper.id, Request(TOPIC, "y", compare), within=5, max_size=2**20)
        store.close()


async def test_what_is_no_message_opens_no_channel_of_a_store_node(tmp_path: Path) -> None:
    """1,000 invalid messages of ten bytes filled its channels, also after a restart; what one
    sender may open is a quarter of them."""

    def tiny(author: Node, n: int, **fields: Any) -> tuple[str, rpc_pb2.Message]:
        message = sds_pb2.SdsMessage(channel_id=f"{n:04}", **fields)
        return message.channel_id, sign(author.pubsub, TOPIC, message.SerializeToString())

    def content(author: Node, n: int) -> tuple[str, rpc_pb2.Message]:
        sender = author.id.to_base58()
        return tiny(author, n, sender_id=sender, lamport_timestamp=1, content=b"x")

    async with running_nodes(3, router=flood) as (keeper, mallory, ann):
        for life in range(2):
            store = SqliteStore(tmp_path / "keeper.db", Retention())
            async with StoreNode(
                keeper.host, keeper.pubsub, store, topics=[TOPIC], max_channels=20
            ) as node:
                assert len(node.channels) == life * 6
                for n in range(500):
                    node.receive(TOPIC, *tiny(mallory, n))
                    node.receive(TOPIC, *tiny(mallory, n, lamport_timestamp=1))
                assert node.counts["opens-no-channel"] == 1000
                for n in range(30):
                    node.receive(TOPIC, *content(mallory, 5000 + n))
                node.receive(TOPIC, *content(ann, 9000))
                await eventually(lambda: len(node.channels) == 6)
                assert (TOPIC, "9000") in node.channels
                await eventually(lambda: all(node.channels.values()))
            store.close()


async def test_no_cancellation_makes_a_message_come_again(tmp_path: Path) -> None:
    async with running_nodes(2, router=flood) as nodes, channels(nodes[:1]) as (one,):
        await connect_all([(nodes[0], nodes[1])])
        sent = [(await one.send(b"%d" % n)).id for n in range(2)]
        for n in range(4):
            store = SqliteStore(tmp_path / "two.db")
            with trio.CancelScope() as scope:
                async with (
                    SdsChannel(nodes[1].pubsub, TOPIC, params=QUICK, store=store) as two,
                    trio.open_nursery(),
                ):
                    assert (await next_of(two)).id == sent[0]
                    if n == 3:
                        await eventually(lambda channel=two: len(channel.log) == 2)
                        with trio.CancelScope() as given_up:
                            given_up.cancel()
                            await two.__anext__()
                        assert (await next_of(two)).id == sent[1]
                    scope.cancel()
                    await trio.lowlevel.checkpoint()
            assert scope.cancelled_caught
            store.close()


async def test_a_channel_is_opened_once_and_nothing_is_sent_when_it_is_closed() -> None:
    """Its store had it, so that two participants used one clock."""
    store = MemoryStore()
    async with running_nodes(1, router=flood) as nodes:
        async with channels(nodes, store=store) as (one,):
            await one.send(b"open")
            twice = SdsChannel(nodes[0].pubsub, TOPIC, store=store)
            with pytest.raises(ValueError, match="open already"):
                await twice.__aenter__()
            purged = access_of(store).purged['["room", "0"]']
            assert purged == one._driver._purged, "what is removed, the open one is told"
        with pytest.raises(trio.ClosedResourceError):
            await one.send(b"closed")
        with pytest.raises(trio.ClosedResourceError):
            await one.give_snapshot(b"closed", one.log[0].clock)
        assert store.count('["room", "0"]') == 1


async def test_a_topic_is_joined_while_it_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its router was told of the leaving last."""
    async with running_nodes(1, router=flood) as nodes:
        told: list[str] = []
        router = nodes[0].pubsub.router
        for word in ("join", "leave"):

            async def tell(topic: str, word: str = word) -> None:
                told.append(word)

            monkeypatch.setattr(router, word, tell)

        async def slowly(*args: Any, **named: Any) -> None:
            await trio.testing.wait_all_tasks_blocked()

        monkeypatch.setattr(nodes[0].pubsub, "message_all_peers", slowly)
        first, second = (SdsChannel(nodes[0].pubsub, TOPIC, channel_id=c) for c in "12")

        async def come_and_go(leave: trio.Event) -> None:
            async with first:
                await leave.wait()

        async with trio.open_nursery() as nursery:
            leave = trio.Event()
            nursery.start_soon(come_and_go, leave)
            await eventually(lambda: first._driver.running)
            leave.set()
            while TOPIC in topic.topics_of(nodes[0].pubsub).open:
                await trio.lowlevel.checkpoint()
            async with second:
                await second.send(b"hello")
        assert told == ["join", "leave", "join", "leave"]


async def test_a_channel_that_a_message_opened_is_not_opened_again(tmp_path: Path) -> None:
    """A store node that was started again while members talked failed with "open already"."""
    async with running_nodes(2, router=flood) as (keeper, ann):
        sender = ann.id.to_base58()
        fields = {"sender_id": sender, "lamport_timestamp": 1, "content": b"x"}
        message = sds_pb2.SdsMessage(channel_id="x", **fields)
        carrier = sign(ann.pubsub, TOPIC, message.SerializeToString())
        store = SqliteStore(tmp_path / "keeper.db", Retention())
        store.load('["room", "x"]', keeper.id.to_base58(), 100)
        node = StoreNode(keeper.host, keeper.pubsub, store, topics=[TOPIC])
        async with node:
            node.receive(TOPIC, "x", carrier)
            await eventually(lambda: node.channels.get((TOPIC, "x")) == 1)
        again = StoreNode(keeper.host, keeper.pubsub, store, topics=[TOPIC])
        page = store.page

        def meanwhile(*args: Any) -> Any:
            again.receive(TOPIC, "x", carrier)
            return page(*args)

        with (
            patch.object(store, "page", side_effect=meanwhile),
            patch.object(
                ChannelDriver, "start", autospec=True, side_effect=ChannelDriver.start
            ) as start,
        ):
            async with again:
                await eventually(lambda: again.channels.get((TOPIC, "x")) == 1)
        assert start.call_count == 1
        store.close()


async def test_only_peers_that_may_read_a_log() -> None:
    async with running_nodes(3, router=flood) as nodes:
        ann, bob, eve = nodes
        asked: list[tuple[str, str, str]] = []

        def authorize(peer: ID, topic: str, channel: str) -> bool:
            asked.append((peer.to_base58(), topic, channel))
            return peer == bob.id

        await connect_all([(ann, bob), (ann, eve)])
        async with channels([ann], authorize=authorize) as (one,):
            await one.send(b"for bob")
            request = Request(TOPIC, "0", fx.AskRange("", 10))
            response = await ask(bob.host, ann.id, request, within=PATIENCE, max_size=2**20)
            assert len(response.items) == 1
            ids = (one.log[0].id,)
            for each in (fx.AskRange("", 10), fx.AskIds("", ids), fx.AskSnapshot("", 1)):
                request = Request(TOPIC, "0", each)
                with pytest.raises(ExchangeError, match="NOT_AUTHORIZED"):
                    await ask(eve.host, ann.id, request, within=PATIENCE, max_size=2**20)
        assert asked[0] == (str(bob.id), TOPIC, "0")
        assert {peer for peer, *_ in asked} == {str(bob.id), str(eve.id)}


async def test_what_leaves_the_log_unread_is_told_of() -> None:
    """200 of 300 unread messages went in silence."""
    params = replace(QUICK, log_limit=10)
    async with running_nodes(2, router=flood) as nodes, channels(nodes[:1]) as (one,):
        sent = [(await one.send(b"%d" % n)).id for n in range(40)]
        await connect_all([(nodes[0], nodes[1])])
        async with channels(nodes[1:], params) as (two,), trio.open_nursery() as nursery:
            dropped: list[UnreadDropped] = []

            async def collect() -> None:
                async for event in two.events():
                    if isinstance(event, UnreadDropped):
                        dropped.append(event)

            nursery.start_soon(collect)
            await eventually(lambda: sent[-1] in [item.id for item in two.log])
            assert [(await next_of(two)).id for _ in range(10)] == sent[-10:]
            (gone,) = [item.clock for item in one.log if item.id == sent[-11]]
            await eventually(lambda: dropped == [UnreadDropped(gone)])
            assert two.stats["unread-dropped"] == 1
            nursery.cancel_scope.cancel()


async def test_what_left_unread_is_told_of_though_only_our_own_is_there() -> None:
    """The reader passed by it in silence."""
    store = MemoryStore(Retention(None, None, max_messages=10, interval=0.05))
    async with (
        connected(2) as nodes,
        channels(nodes[:1]) as (one,),
        channels(nodes[1:], store=store) as (two,),
        trio.open_nursery() as nursery,
    ):
        dropped: list[UnreadDropped] = []

        async def collect() -> None:
            async for event in two.events():
                if isinstance(event, UnreadDropped):
                    dropped.append(event)

        for n in range(3):
            await one.send(b"%d" % n)
        await eventually(lambda: len(two.log) == 3)
        gone = two.log[-1].clock
        own = await two.send(b"own")
        store.retention = Retention(None, None, max_messages=1, interval=0.05)
        await eventually(lambda: [item.id for item in two.log] == [own.id])
        nursery.start_soon(collect)
        await trio.testing.wait_all_tasks_blocked()
        nursery.start_soon(next_of, two)
        await eventually(lambda: dropped == [UnreadDropped(gone)])
        nursery.cancel_scope.cancel()


async def test_what_a_reader_says_itself_is_passed_over_once() -> None:
    """Each call after a cancelled one began before it again (100 ms of CPU with a full log); once
    it had left, the reader was told that it had missed something."""
    store = MemoryStore()
    async with running_nodes(1, router=flood) as nodes, channels(nodes, store=store) as (one,):
        await one.send(b"mine")
        (mine,) = one.log
        for _ in range(2):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(anext, one)
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        assert store.reader('["room", "0"]').place == (mine.clock, mine.id)


async def test_a_full_disk_refuses_to_send_and_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """Each send that failed took 7 to 14 s, in which all was loaded again."""
    async with connected(2) as nodes:
        store = SqliteStore(tmp_path / "one.db")
        async with (
            SdsChannel(nodes[0].pubsub, TOPIC, params=QUICK, store=store) as one,
            channels(nodes[1:]) as (two,),
        ):
            await subscribed(*nodes)
            await one.send(b"before")
            with (
                sqlite_limit(store, 20),
                patch.object(
                    SqliteStore, "load", autospec=True, side_effect=SqliteStore.load
                ) as load,
            ):
                for _ in range(5):
                    with pytest.raises(StoreFullError, match="the disk is full"):
                        await one.send(b"x" * 500_000)
                assert load.call_count == 1
                big = await two.send(b"y" * 500_000)
                await eventually(lambda: one.stats["store-full"] > 0)
            assert len(one.log) == 1
            await one.send(b"after")
            heard = [(await next_of(two)).content for _ in range(2)]
            assert heard == [b"before", b"after"]
            assert (await next_of(one)).id == big.id
            await eventually(lambda: one.log == two.log)
        store.close()


async def test_receipts_fail_and_survive_and_are_drained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outgoing, "TRACKED", 8)
    params = replace(QUICK, outgoing_limit=4)
    async with running_nodes(2, router=flood) as nodes:
        store = SqliteStore(tmp_path / "one.db")
        async with SdsChannel(nodes[0].pubsub, TOPIC, params=params, store=store) as one:
            receipts = [await one.send(b"%d" % n) for n in range(20)]
            with pytest.raises(NotAcknowledgedError, match="tracked no more"):
                await receipts[0].acknowledged()
            with trio.fail_after(PATIENCE):
                await receipts[-1].sent()
            assert receipts[-1].published
            assert not await one.drain(timeout=0.05)
            await connect_all([(nodes[0], nodes[1])])
            async with channels(nodes[1:], params) as (two,):
                await subscribed(*nodes)
                await eventually(lambda: len(two.log) == 20)
                sent = [await one.send(b"more %d" % n) for n in range(20)]
                assert await one.drain(timeout=PATIENCE)
                assert sent[-1].status is AckStatus.ACKNOWLEDGED
                assert all(r.status is not AckStatus.EXPIRED for r in sent)
        store.close()
        store = SqliteStore(tmp_path / "one.db")
        async with SdsChannel(nodes[0].pubsub, TOPIC, params=params, store=store) as one:
            again = one.receipt(sent[-1].id)
            assert again.acked_by == (str(nodes[1].id),)
            assert one.receipt(receipts[0].id) is None
        store.close()


async def test_expiry_is_told_to_those_who_wait() -> None:
    params = replace(QUICK, resend_interval=0.1, resend_limit=1)
    async with connected(2) as nodes, channels(nodes[:1], params) as (one,):
        await nodes[1].pubsub.subscribe(TOPIC)  # somebody is there, and knows no SDS
        await subscribed(*nodes)
        receipt = await one.send(b"nobody answers")
        with trio.fail_after(PATIENCE), pytest.raises(NotAcknowledgedError, match="resent"):
            await receipt.acknowledged()


async def test_nobody_waits_for_a_message_that_is_tracked_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`acknowledged(by=2)` hung for one that wasn't tracked any more."""
    monkeypatch.setattr(outgoing, "TRACKED", 3)
    params = replace(QUICK, outgoing_limit=2)
    async with running_nodes(1, router=flood) as nodes, channels(nodes, params) as (one,):
        receipt = await one.send(b"first")

        async def wait() -> None:
            with trio.fail_after(PATIENCE), pytest.raises(NotAcknowledgedError, match="tracked"):
                await receipt.acknowledged(by=2)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            for n in range(5):
                await one.send(b"%d" % n)


async def test_sending_goes_on_when_the_last_peer_has_left() -> None:
    params = replace(QUICK, outgoing_limit=2, sync_interval=0.3)
    async with running_nodes(2, router=flood) as (a, b):
        await connect_all([(a, b)])
        async with channels([a], params) as (one,), trio.open_nursery() as nursery:
            await b.pubsub.subscribe(TOPIC)
            await subscribed(a, b)
            await b.pubsub.publish(TOPIC, written_by(b, b"I acknowledge nothing")[0])
            await next_of(one)
            for n in range(4):
                nursery.start_soon(one.send, b"%d" % n)
            await trio.testing.wait_all_tasks_blocked()
            assert len(one.log) == 1 + 2
            await a.host.disconnect(b.id)
            await eventually(lambda: len(one.log) == 1 + 4, PATIENCE)


def written_by(
    node: Node, words: bytes, *history: str, lamport: int = 5
) -> tuple[bytes, MessageId]:
    """A message of a host that knows no SDS otherwise, and its id."""
    return Codec(QUICK).encode(
        Message(
            sender_id=str(node.id),
            channel_id="0",
            lamport=lamport,
            causal_history=tuple(map(HistoryEntry, history)),
            content=words,
        )
    )


async def test_of_many_sends_at_once_all_wait_for_their_room() -> None:
    """Of a thousand, 488 saw room before the first was stored, and left the buffer unsent."""
    params = replace(QUICK, outgoing_limit=5, resend_interval=PATIENCE)
    async with (
        connected(2) as nodes,
        channels(nodes[:1], params) as (one,),
        trio.open_nursery() as nursery,
    ):
        await nodes[1].pubsub.subscribe(TOPIC)
        await subscribed(*nodes)
        data, _ = written_by(nodes[1], b"I acknowledge nothing")
        await nodes[1].pubsub.publish(TOPIC, data)
        await next_of(one)
        for n in range(20):
            nursery.start_soon(one.send, b"%d" % n)
        await trio.testing.wait_all_tasks_blocked()
        assert len(one.log) == 1 + 5
        nursery.cancel_scope.cancel()


async def test_leaving_under_a_cancellation_from_outside_ends_quietly() -> None:
    """It crashed with "nursery stack corrupted", 25 of 25 times."""
    async with running_nodes(1, router=flood) as nodes:
        for _ in range(3):
            with trio.CancelScope() as scope:
                async with SdsChannel(nodes[0].pubsub, TOPIC, params=QUICK) as one:
                    for n in range(3):
                        await one.send(b"%d" % n)
                    scope.cancel()
            assert scope.cancelled_caught
        async with SdsChannel(nodes[0].pubsub, TOPIC, params=QUICK) as one:
            await one.send(b"the topic can be joined again")


async def test_what_is_sent_before_leaving_is_published() -> None:
    async with connected(2) as nodes, channels(nodes[1:]) as (two,):
        async with channels(nodes[:1]) as (one,):
            await subscribed(*nodes)
            for n in range(20):  # as many as py-libp2p queues
                await one.send(b"%d" % n)
        await eventually(lambda: len(two.log) == 20)


async def test_hostile_streams_hurt_nobody_else(tmp_path: Path) -> None:
    async with connected(2) as nodes:
        a, b = nodes
        async with channels([a]) as (one,):
            await one.send(b"x")
            for data in (b"\xff" * 20, b"\x05\xff\xff\xff\xff\xff", b"\x02\x0a", b"\x00"):
                stream = await b.host.new_stream(a.id, [TProtocol("/sds/store/3.0.0")])
                await stream.write(data)
                await stream.close_write()
                with trio.move_on_after(1.0), suppress(StreamError):
                    await stream.read(100)
                await stream.reset()
            request = Request(TOPIC, "0", fx.AskRange("", 4000))
            response = await ask(b.host, a.id, request, within=PATIENCE, max_size=2**20)
            assert len(response.items) == 1
