"""Many channels between two hosts: streams that carry one request after another, and no burst that
py-libp2p drops."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import cast

import pytest
import trio
from libp2p.abc import IHost, INetStream
from libp2p.custom_types import TProtocol
from libp2p.network.stream.exceptions import StreamEOF
from libp2p.peer.id import ID
from libp2p.pubsub.floodsub import PROTOCOL_ID, FloodSub
from libp2p.pubsub.pb.rpc_pb2 import Message
from libp2p.pubsub.pubsub import SUBSCRIPTION_CHANNEL_SIZE, Pubsub
from libp2p.stream_muxer.yamux.yamux import Yamux
from libp2p.utils.varint import encode_varint_prefixed, read_varint_prefixed_bytes_limited
from trio.testing import MockClock

from episub_router import PubsubParams, ResilientPubsub
from episub_router.sds import SdsChannel
from episub_router.sds.net import calls, exchange, limiter
from episub_router.sds.net.calls import Call, carry, streams_of
from episub_router.sds.net.exchange import ExchangeError, ask, server_of
from episub_router.sds.net.outbox import PublishQueue, RateLimit, Turns
from episub_router.sds.protocol.effects import (
    AskCompare,
    AskRange,
    Purpose,
    Response,
    ResponseStatus,
)
from episub_router.sds.protocol.entry import RangeHash
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.wire.exchange import (
    MAX_REQUEST,
    Request,
    decode_response,
    encode_request,
    encode_response,
)
from episub_router.util.params import Rate
from tests.hosts import PATIENCE, Node, connect_all, eventually, running_nodes

pytestmark = pytest.mark.hosts

MANY = TProtocol("/sds/store/3.0.0")
WHOLE = AskCompare("", bytes(16), (RangeHash(None, None, 0, b""),))


@asynccontextmanager
async def two_hosts() -> AsyncIterator[tuple[Node, Node]]:
    async with running_nodes(2, router=lambda: FloodSub([PROTOCOL_ID])) as (a, b):
        await connect_all([(a, b)])
        yield a, b


@contextmanager
def opened_streams(node: Node, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[TProtocol | None]]:
    """The protocols of streams that a host opens meanwhile."""
    opened: list[TProtocol | None] = []
    original = node.host.new_stream

    async def counting(peer: object, protocols: list[TProtocol]) -> INetStream:
        stream = await original(peer, protocols)
        opened.append(stream.get_protocol())
        return stream

    with monkeypatch.context() as patch:
        patch.setattr(node.host, "new_stream", counting)
        yield opened


async def asked(b: Node, a: Node, request: Request) -> Response:
    return await ask(b.host, a.id, request, within=PATIENCE, max_size=2**20)


async def refused(b: Node, a: Node, request: Request) -> None:
    with pytest.raises(ExchangeError):
        await asked(b, a, request)


async def answer_unknown(stream: INetStream) -> None:
    """Answer a request as a host without channels does."""
    await read_varint_prefixed_bytes_limited(stream, MAX_REQUEST)
    response = Response(ResponseStatus.UNKNOWN_CHANNEL, "none")
    await stream.write(encode_varint_prefixed(encode_response(response)))


async def test_requests_one_after_another_share_a_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    async with two_hosts() as (a, b):
        server_of(a.host)
        with opened_streams(b, monkeypatch) as opened:
            for n in range(20):
                with pytest.raises(ExchangeError, match="UNKNOWN_CHANNEL"):
                    await asked(b, a, Request("t", str(n), AskRange("", 4000)))
            assert opened == [MANY]


async def test_comparisons_of_one_moment_go_together(monkeypatch: pytest.MonkeyPatch) -> None:
    async with two_hosts() as (a, b), AsyncExitStack() as stack:
        for n in range(20):
            channel = SdsChannel(a.pubsub, "rooms", channel_id=str(n))
            await (await stack.enter_async_context(channel)).send(b"hello")
        counts: list[int] = []

        async def compare(n: int) -> None:
            response = await asked(b, a, Request("rooms", str(n), WHOLE))
            counts.append(len(response.comparison.keys))

        with opened_streams(b, monkeypatch) as opened:
            for _ in range(2):
                async with trio.open_nursery() as nursery:
                    for n in range(20):
                        nursery.start_soon(compare, n)
            assert opened == [MANY]
        assert counts == [1] * 40


async def test_streams_that_the_other_side_leaves_open_are_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """py-libp2p would keep each of them for as long as the connection lasts."""
    monkeypatch.setattr(calls, "CLOSING", 0.1)
    monkeypatch.setattr(calls, "LINGER", 0.05)
    monkeypatch.setattr(exchange, "IDLE", 0.1)
    request = encode_varint_prefixed(encode_request(Request("t", "0", WHOLE)))

    async def answer_and_stay(stream: INetStream) -> None:
        await answer_unknown(stream)
        await trio.sleep_forever()

    async with two_hosts() as (a, b):
        a.host.set_stream_handler(MANY, answer_and_stay)

        def kept(node: Node, peer: Node) -> int:
            (connection,) = node.host.get_network().get_connections(peer.id)
            return len(cast(Yamux, connection.muxed_conn).streams)

        before = kept(b, a)
        for n in range(3):
            with pytest.raises(ExchangeError, match="UNKNOWN_CHANNEL"):
                await asked(b, a, Request("t", str(n), WHOLE))
            # A stream that is still kept would carry the next request, which nobody reads.
            await eventually(lambda: not streams_of(b.host), PATIENCE)
            await eventually(lambda: kept(b, a) <= before, PATIENCE)
        server_of(a.host)
        before = kept(a, b)
        for _ in range(5):
            stream = await b.host.new_stream(a.id, [MANY])
            await stream.write(request)
            with trio.fail_after(PATIENCE):
                await read_varint_prefixed_bytes_limited(stream, MAX_REQUEST)
        await eventually(lambda: kept(a, b) <= before, PATIENCE)


async def test_what_is_no_request_ends_its_stream() -> None:
    """Empty frames take a byte each, and would keep a host busy with answers."""
    async with two_hosts() as (a, b):
        server = server_of(a.host)
        stream = await b.host.new_stream(a.id, [MANY])
        await stream.write(bytes(10_000))
        with trio.fail_after(PATIENCE):
            answer = await read_varint_prefixed_bytes_limited(stream, MAX_REQUEST)
            assert decode_response(answer).status is ResponseStatus.BAD_REQUEST
            with pytest.raises(StreamEOF):
                await stream.read(1)
        assert server.counts["BAD_REQUEST"] == 1


async def test_a_peer_keeps_few_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    request = encode_varint_prefixed(encode_request(Request("t", "0", WHOLE)))
    monkeypatch.setattr(exchange, "MOST_STREAMS", 2)
    async with two_hosts() as (a, b):
        server = server_of(a.host)
        streams = [await b.host.new_stream(a.id, [MANY]) for _ in range(3)]

        async def answered(stream: INetStream) -> None:
            await stream.write(request)
            with trio.fail_after(PATIENCE):
                await read_varint_prefixed_bytes_limited(stream, MAX_REQUEST)

        for stream in streams:
            await answered(stream)
        with trio.fail_after(PATIENCE), pytest.raises(StreamEOF):
            await streams[0].read(1)
        for stream in streams[1:]:
            await answered(stream)
            await stream.close()
        await eventually(lambda: not server.open_streams, PATIENCE)


async def test_requests_beyond_a_peers_rate_wait_unless_it_has_many_streams(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They were refused, and asked again."""
    monkeypatch.setattr(limiter, "PEER_RATE", Rate(2.0, 2))  # half a second: more than one takes
    async with two_hosts() as (a, b):
        server, request = server_of(a.host), Request("t", "0", WHOLE)
        start = trio.current_time()
        for _ in range(6):
            with pytest.raises(ExchangeError, match="UNKNOWN_CHANNEL"):
                await asked(b, a, request)
        assert trio.current_time() - start >= 4 / 2.0
        assert server.counts["waited"] >= 4
        monkeypatch.setattr(exchange, "MOST_STREAMS", 0)
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(refused, b, a, request)
        assert server.counts["broken-stream"]


async def test_a_stream_that_ended_while_it_was_kept_is_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def answer_once(stream: INetStream) -> None:
        await answer_unknown(stream)
        await stream.reset()

    async with two_hosts() as (a, b):
        a.host.set_stream_handler(MANY, answer_once)
        with opened_streams(b, monkeypatch) as opened:
            for n in range(3):
                with pytest.raises(ExchangeError, match="UNKNOWN_CHANNEL"):
                    await asked(b, a, Request("t", str(n), WHOLE))
        assert opened == [MANY] * 3


async def test_a_request_that_is_left_takes_none_with_it() -> None:
    """Two comparisons on one stream, whose first answer doesn't come."""
    came, streams = trio.Event(), 0

    async def answer_later(stream: INetStream) -> None:
        nonlocal streams
        streams += 1
        if streams == 1:
            await read_varint_prefixed_bytes_limited(stream, MAX_REQUEST)
            came.set()
            return
        await answer_unknown(stream)

    async with two_hosts() as (a, b):
        a.host.set_stream_handler(MANY, answer_later)

        async def compare(scope: trio.CancelScope) -> None:
            with scope, pytest.raises(ExchangeError, match="UNKNOWN_CHANNEL"):
                await asked(b, a, Request("t", "0", WHOLE))

        async with trio.open_nursery() as nursery:
            left, other = trio.CancelScope(), trio.CancelScope()
            nursery.start_soon(compare, left)
            nursery.start_soon(compare, other)
            with trio.fail_after(PATIENCE):
                await came.wait()
            left.cancel()
        assert left.cancelled_caught
        assert not other.cancelled_caught
        assert streams == 2


class StalledStream:
    """One whose connection takes nothing for a while: a request is written when the stream is
    reset, and what reads then waits for ever, as with py-libp2p."""

    def __init__(self) -> None:
        self.was_reset = trio.Event()
        self.reading = False

    def get_protocol(self) -> TProtocol:
        return MANY

    async def write(self, data: bytes) -> None:
        await self.was_reset.wait()

    async def read(self, n: int) -> bytes:
        self.reading = True
        try:
            await trio.sleep_forever()
        finally:
            self.reading = False

    async def reset(self) -> None:
        self.was_reset.set()


class StalledHost:
    def __init__(self, stream: StalledStream) -> None:
        self._stream = stream

    async def new_stream(self, peer: ID, protocols: list[TProtocol]) -> StalledStream:
        return self._stream


async def test_a_request_that_is_left_while_it_is_written_leaves_no_task_behind(
    autojump_clock: MockClock,
) -> None:
    stream = StalledStream()
    host, call = cast(IHost, StalledHost(stream)), Call(b"request", 2**20)
    carry(host, ID(b"peer"), call)
    await trio.sleep(10.0)
    call.leave()
    await trio.sleep(0.5)
    assert stream.reading
    await trio.sleep(10.0)
    assert not stream.reading


class HangsOnce:
    """A host that opens no stream the first time."""

    def __init__(self) -> None:
        self.asked = 0

    async def new_stream(self, peer: ID, protocols: list[TProtocol]) -> StalledStream:
        self.asked += 1
        if self.asked == 1:
            await trio.sleep_forever()
        return StalledStream()


async def test_a_stream_that_does_not_open_holds_up_no_further_request(
    autojump_clock: MockClock,
) -> None:
    unopened, peer = HangsOnce(), ID(b"peer")
    host = cast(IHost, unopened)
    for asked in (1, 2):
        call = Call(b"request", 2**20)
        carry(host, peer, call)
        await trio.sleep(10.0)
        call.leave()
        await trio.sleep(10.0)
        assert unopened.asked == asked


class FewTake:
    """A pubsub of peers in a topic, each with so many messages in its queue."""

    router = None

    def __init__(self, **waiting: int) -> None:
        self.peer_topics = {"t": set(waiting)}
        self.peer_queues = {peer: Waiting(count) for peer, count in waiting.items()}

    async def publish(self, topic: str, data: bytes) -> None:
        await trio.lowlevel.checkpoint()


class Waiting(list[None]):
    closed = False

    def __init__(self, count: int) -> None:
        super().__init__([None] * count)


async def test_publishing_waits_for_room_but_not_for_a_peer_that_stands_still(
    autojump_clock: MockClock,
) -> None:
    pubsub, turns = FewTake(quick=0, full=32), Turns()
    start = trio.current_time()

    async def room() -> float:
        await turns.room(cast(Pubsub, pubsub), "t")
        return trio.current_time() - start

    async with trio.open_nursery() as nursery:

        async def take() -> None:
            await trio.sleep(0.5)
            pubsub.peer_queues["full"].clear()

        nursery.start_soon(take)
        assert 0.5 <= await room() < 0.6
    pubsub.peer_queues["full"] += [None] * 32
    assert 0.9 <= await room() < 1.1
    for _ in range(100):
        assert await room() < 1.1, "a peer that stands still is waited for once"
    pubsub.peer_queues["full"].clear()
    for _ in range(10):
        await room()
    pubsub.peer_queues["full"] += [None] * 32
    assert 1.9 <= await room() < 2.1, "it is waited for again once it went on"
    for _ in range(10):
        assert await room() < 2.1
    pubsub.peer_queues["quick"] += [None] * 32
    assert 2.1 <= await room() < 2.3, "others are waited for, for 20 ms a message"


async def test_what_waits_to_be_published_is_not_resent_besides() -> None:
    """On a busy machine a thousand messages were published 2.2 times each."""

    def published(message_id: str) -> None:
        pass

    counts: Counter[str] = Counter()
    queue = PublishQueue(cast(Pubsub, FewTake()), "t", counts, published)
    assert queue.post("a", b"a", Purpose.CONTENT)
    assert not queue.post("a", b"a", Purpose.RESEND)
    assert queue.post("b", b"b", Purpose.CONTENT)
    assert counts == {"outbox-waits": 1}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.run)
        await queue.flush()
        assert queue.post("a", b"a", Purpose.RESEND)
        await queue.flush()
        nursery.cancel_scope.cancel()
    assert counts["published-content"] == 2
    assert counts["published-resend"] == 1


async def test_who_waits_for_all_to_be_published_waits_also_for_what_comes_meanwhile() -> None:
    """It hung for ever where something was posted while it waited."""
    queue = PublishQueue(cast(Pubsub, FewTake()), "t", Counter(), [].append)
    async with trio.open_nursery() as nursery:
        queue.post("a", b"a", Purpose.CONTENT)
        nursery.start_soon(queue.flush)
        await trio.testing.wait_all_tasks_blocked()
        queue.post("b", b"b", Purpose.CONTENT)
        with trio.fail_after(PATIENCE):
            nursery.start_soon(queue.run)
            while len(nursery.child_tasks) > 1:
                await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()


async def test_a_rate_limit_holds_messages_back_and_drops_ephemeral_ones(
    autojump_clock: MockClock,
) -> None:
    """LIP-173: what is beyond it is queued; what has no order is dropped near it."""
    times: list[float] = []
    counts: Counter[str] = Counter()
    queue = PublishQueue(
        cast(Pubsub, FewTake()),
        "t",
        counts,
        lambda message_id: times.append(trio.current_time()),
        RateLimit(10, 60.0),
    )
    async with trio.open_nursery() as nursery:
        nursery.start_soon(queue.run)
        for n in range(25):
            assert queue.post(f"{n}", b"%d" % n, Purpose.CONTENT)
        assert not queue.post("typing", b"typing", Purpose.EPHEMERAL)
        start = trio.current_time()
        await queue.flush()
        assert [round(at - start) for at in times] == [0] * 10 + [60] * 10 + [120] * 5
        for n in range(4):
            assert queue.post(f"typing {n}", b"typing %d" % n, Purpose.EPHEMERAL)
        assert not queue.post("one more", b"one more", Purpose.EPHEMERAL)
        nursery.cancel_scope.cancel()
    assert counts["ephemeral-dropped"] == 2
    with pytest.raises(ValueError, match="at least one"):
        PublishQueue(cast(Pubsub, FewTake()), "t", counts, times.append, RateLimit(0, 1.0))  # type: ignore[arg-type]


async def test_many_slow_peers_hold_up_what_is_published_no_longer_than_one(
    autojump_clock: MockClock,
) -> None:
    pubsub, turns = FewTake(**{f"p{n}": 32 for n in range(50)}), Turns()
    start = trio.current_time()
    await turns.room(cast(Pubsub, pubsub), "t")
    assert 0.9 <= trio.current_time() - start < 1.1
    start = trio.current_time()
    for n in range(100):
        pubsub.peer_topics["t"].add(f"new {n}")
        pubsub.peer_queues[f"new {n}"] = Waiting(32)
        await turns.room(cast(Pubsub, pubsub), "t")
    assert trio.current_time() - start < 2.1, "20 ms for each message, however many are slow"


async def test_a_topic_is_read_through_more_room_than_py_libp2p_has() -> None:
    async with two_hosts() as (a, _), SdsChannel(a.pubsub, "rooms"):
        channel = a.pubsub.subscribed_topics_send["rooms"]
        reader = a.pubsub.subscribed_topics_receive["rooms"].receive_channel
        assert reader.statistics().max_buffer_size >= 1000
        message = Message(topicIDs=["rooms"], data=bytes(2**20))
        for _ in range(63):
            channel.send_nowait(message)
        with pytest.raises(trio.WouldBlock):
            channel.send_nowait(message)


async def test_a_pubsub_with_as_little_room_as_py_libp2p_is_read() -> None:
    options = {"params": PubsubParams(subscription_buffer=SUBSCRIPTION_CHANNEL_SIZE)}
    async with (
        running_nodes(
            2,
            router=lambda: FloodSub([PROTOCOL_ID]),
            pubsub_class=ResilientPubsub,
            pubsub_options=options,
        ) as (a, b),
        SdsChannel(a.pubsub, "rooms") as ours,
        SdsChannel(b.pubsub, "rooms") as theirs,
    ):
        await connect_all([(a, b)])
        await a.pubsub.wait_for_subscription(b.id, "rooms", timeout=PATIENCE)
        await ours.send(b"hello")
        await eventually(lambda: len(theirs.log) == 1, PATIENCE)


async def test_what_many_channels_say_at_once_arrives_the_first_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """More than py-libp2p queues for a peer, or for a subscription (32 each)."""
    count, params = 100, SdsParams(resend_interval=PATIENCE)
    async with two_hosts() as (a, b), AsyncExitStack() as stack:

        async def opened(node: Node) -> list[SdsChannel]:
            return [
                await stack.enter_async_context(
                    SdsChannel(node.pubsub, "rooms", channel_id=str(n), params=params)
                )
                for n in range(count)
            ]

        ours, theirs = await opened(a), await opened(b)
        await a.pubsub.wait_for_subscription(b.id, "rooms", timeout=PATIENCE)
        async with trio.open_nursery() as nursery:
            for channel in ours:
                nursery.start_soon(channel.send, b"hello")
        await eventually(lambda: all(len(channel.log) for channel in theirs), PATIENCE)
        assert not [r for r in caplog.records if r.levelno >= logging.WARNING]
        assert sum(channel.stats["published-repair"] for channel in ours) == 0
