"""Contents that are larger than a message: the segments of LIP-243."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import trio
from Crypto.Hash import keccak

from episub_router.pb import sds_pb2
from episub_router.sds import ChannelMessage, ContentUnreadable, SdsChannel, SqliteStore
from episub_router.sds.content.contents import Contents, sent_together
from episub_router.sds.interop import Interop, WireFormat, js_filter
from episub_router.sds.protocol.entry import StoredMessage
from episub_router.sds.protocol.message import Segment
from episub_router.sds.store.values import SegmentPlace
from episub_router.sds.wire.codec import Codec, read_segment, write_segment
from tests.hosts import PATIENCE, Node, connect_all, eventually, running_nodes
from tests.sds.test_application import Sealed, elsewhere, unreadable
from tests.sds.test_channel import QUICK, TOPIC, channels, connected, flood, next_of, subscribed

SMALL = replace(QUICK, max_message=64 * 1024, max_content=600_000, pull_timeout=20.0)
CONTENT = bytes(range(256)) * 2000
CODEC = Interop().codec(QUICK, lambda: 10**12)

pytestmark = pytest.mark.hosts


def digest(content: bytes) -> bytes:
    return keccak.new(data=content, digest_bits=256).digest()


def part(payload: bytes, index: int, count: int, whole: bytes, number: int, **other: str) -> bytes:
    """A message of somebody else with a segment of `whole`."""
    segment = Segment(digest(whole), index, count, len(whole))
    message = replace(elsewhere(payload, number), segment=segment, **other)
    return CODEC.encode(message)[0]


async def publish(node: Node, *messages: bytes) -> None:
    for message in messages:
        await node.pubsub.publish(TOPIC, message)


async def test_a_large_content_comes_once_at_its_place(tmp_path: Path) -> None:
    async with connected(2) as nodes:
        cipher = Sealed(bytes(32))
        store = SqliteStore(tmp_path / "two.db")
        async with (
            channels(nodes[:1], SMALL, cipher=cipher) as (one,),
            channels(nodes[1:], SMALL, cipher=cipher, store=store) as (two,),
        ):
            await subscribed(*nodes)
            before = await one.send(b"small")
            receipt = await one.send(CONTENT)
            after = await one.send(b"small again")
            got = [await next_of(two) for _ in range(3)]
            assert [m.id for m in got] == [before.id, receipt.id, after.id]
            assert got[1].content == CONTENT
            assert len(two.log) == 2 + 9
            for channel in (one, two):
                shown = await channel.latest(limit=2)
                assert [m.content for m in shown] == [b"small again", CONTENT]
                assert [m.id for m in await channel.history()] == [m.id for m in got]
            with trio.fail_after(PATIENCE):
                await receipt.acknowledged()
                streamed = [message async for message in first(two, 3)]
            assert [m.content for m in streamed] == [b"small", CONTENT, b"small again"]
            with pytest.raises(ValueError, match="at most 600000"):
                await one.send(bytes(600_001))
        store.close()


async def first(channel: SdsChannel, count: int) -> AsyncIterator[ChannelMessage]:
    """The first messages of the stream."""
    async for message in channel.stream():
        yield message
        count -= 1
        if not count:
            return


async def test_segments_that_were_lost_are_fetched_and_older_ones_are_shown() -> None:
    """Nobody was there when they were sent; a newcomer that begins later gets them from a peer."""
    # What is sent again while it is there would begin its log.
    once = replace(SMALL, resend_interval=PATIENCE)
    async with running_nodes(3, router=flood) as nodes, channels(nodes[:1], once) as (one,):
        sent = (await one.send(CONTENT)).id
        await connect_all([(nodes[0], nodes[1])])
        async with channels(nodes[1:2], SMALL) as (two,):
            got = await next_of(two)
            assert (got.id, got.content) == (sent, CONTENT)
            await connect_all([(nodes[0], nodes[2])])
            async with channels(nodes[2:], SMALL, join_last=0) as (three,):
                await eventually(lambda: bool(three._driver.peers))
                (shown,) = await three.older(limit=20)
                assert (shown.id, shown.content) == (sent, CONTENT)
                (last,) = await three.older(limit=1)
                assert (last.id, last.content) == (sent, CONTENT)
                assert len(three.log) == 0


@pytest.mark.parametrize("limit", [1, 3, 20])
async def test_a_content_in_which_a_log_begins_is_shown_by_older(limit: int) -> None:
    """Its last segments, in the log, and its first ones, which came before, each showed none."""
    once = replace(SMALL, resend_interval=PATIENCE)
    async with running_nodes(2, router=flood) as nodes, channels(nodes[:1], once) as (one,):
        sent = [await one.send(content) for content in (b"first", CONTENT, CONTENT)]
        await connect_all([(nodes[0], nodes[1])])
        async with channels(nodes[1:], SMALL, join_last=4) as (two,):
            await eventually(lambda: len(two.log) == 4)
            older: list[ChannelMessage] = []
            while page := await two.older(before=older[-1] if older else None, limit=limit):
                older += page
            assert [m.content for m in older] == [CONTENT, CONTENT, b"first"]
            assert [m.id for m in older[1:]] == [sent[1].id, sent[0].id]
            assert len(two.log) == 4


@pytest.mark.parametrize(("limit", "page"), [(12, 2**20), (40, 2**20), (40, SMALL.max_message)])
async def test_older_messages_have_what_was_said_twice_twice(
    monkeypatch: pytest.MonkeyPatch, limit: int, page: int
) -> None:
    """The last one was put together twice, where a page begins within the first one; and nothing
    came of pages that hold one segment."""
    params = replace(SMALL, page_bytes=page)
    async with running_nodes(2, router=flood) as nodes, channels(nodes[:1], params) as (one,):
        sent = [(await one.send(CONTENT)).id for _ in range(2)]
        await connect_all([(nodes[0], nodes[1])])
        async with channels(nodes[1:], SMALL, join_last=0) as (two,):
            await eventually(lambda: bool(two._driver.peers))
            new = Mock(wraps=keccak.new)
            monkeypatch.setattr(keccak, "new", new)
            shown = await two.older(limit=limit)
            assert new.call_count == 2
            assert [(m.id, m.content == CONTENT) for m in shown] == [
                (sent[1], True),
                (sent[0], True),
            ]


async def test_more_segments_than_anyone_takes_are_not_sent() -> None:
    params = replace(QUICK, max_message=1024)
    async with running_nodes(1, router=flood) as nodes, channels(nodes, params) as (one,):
        with pytest.raises(ValueError, match="310 segments of 832 bytes, at most 256"):
            await one.send(bytes(256 * 1024 - 5000))


async def test_segments_may_come_in_any_order_and_any_time(tmp_path: Path) -> None:
    """Contents with other messages between, over restarts."""
    wholes = [b"content %d, " % n * 5 for n in range(6)]
    sent = [
        part(whole[i * 25 : i * 25 + 25], i, 3, whole, 10 * i + n)
        for n, whole in enumerate(wholes)
        for i in range(3)
    ]
    random.Random(3).shuffle(sent)
    got: list[bytes] = []
    async with connected(2) as nodes:
        await nodes[1].pubsub.subscribe(TOPIC)
        for begin, end in ((0, 9), (9, len(sent))):
            store = SqliteStore(tmp_path / "one.db")
            channel = channels(nodes[:1], store=store, bind_sender=False, interop=Interop())
            async with channel as (one,):
                await subscribed(*nodes)
                await publish(nodes[1], *sent[begin:end])
                await eventually(lambda log=one.log, end=end: len(log) == end)
                came = Counter(map(whole_of, sent[:end]))
                complete = sum(count == 3 for count in came.values())
                while len(got) < complete:
                    got.append((await next_of(one)).content)
                shown = await one.history()
                assert sorted(m.content for m in shown if m.readable) == sorted(got)
            store.close()
    assert sorted(got) == sorted(wholes)


def whole_of(raw: bytes) -> bytes:
    segment = CODEC.decode(raw).segment
    assert segment is not None
    return segment.digest


@pytest.mark.parametrize(
    ("parts", "at", "found"),
    [
        ([0, 1, 2, 0, 1, 2], 4, [3, 4, 5]),
        ([1, 2, 0, 1, 2], 0, [0, 1]),  # the first one has left the log
        ([0, 2, 0, 1, 2], 1, [0, 1]),  # one is missing
        ([0, 0, 1, 2], 0, [0]),
        ([0, 1, 2], 9, []),
    ],
)
def test_segments_that_were_sent_together(parts: list[int], at: int, found: list[int]) -> None:
    """What is said again had taken the places of segments that came late, or again, for ever."""
    places = [SegmentPlace((n, ""), part) for n, part in enumerate(parts)]
    together = sent_together(places, (at, ""))
    assert [place.key[0] for place in together] == found


async def test_what_a_page_of_segments_costs_grows_with_their_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each was compared with each: 4,000, as a peer may send of older ones, took 19 s of CPU."""
    looked_at: Counter[bytes] = Counter()
    of = Segment.of.fget  # type: ignore[attr-defined]

    def counted(segment: Segment) -> bytes:
        looked_at[segment.digest] += 1
        return bytes(of(segment))

    async def of_store(*_: object) -> list[SegmentPlace]:
        return []

    contents = Contents(
        codec=CODEC, params=SMALL, place=(TOPIC, "0"), cipher=None, of_store=of_store
    )
    wholes = [b"content %d" % n for n in range(100)]
    rows = [
        StoredMessage((2 * n + i, f"{n} {i}"), part(half, i, 2, whole, 2 * n + i), b"", "0")
        for n, whole in enumerate(wholes)
        for i, half in enumerate((whole[:5], whole[5:]))
    ]
    monkeypatch.setattr(Segment, "of", property(counted))
    assert [m.content for m in await contents.shown(rows[::-1])] == wholes[::-1]
    assert max(looked_at.values()) < 10


async def test_hostile_segments_make_no_content() -> None:
    whole = b"what was said"
    async with (
        connected(2) as nodes,
        channels(nodes[:1], bind_sender=False, interop=Interop()) as (one,),
        trio.open_nursery() as nursery,
    ):
        found: list[ContentUnreadable] = []
        nursery.start_soon(unreadable, one, found)
        await nodes[1].pubsub.subscribe(TOPIC)
        await subscribed(*nodes)
        await publish(
            nodes[1],
            part(whole[:5], 0, 2, whole, 1),
            part(whole[5:], 1, 2, whole, 2, sender_id="another"),  # not the same sender's
            part(b"other", 0, 2, whole, 0),  # of another sending
            part(whole[5:], 1, 3, whole, 4),  # of another count
            part(b"forged", 0, 2, b"a hash of this", 5),
            part(b"forged", 1, 2, b"a hash of this", 6),
            part(b"short", 0, 1, b"longer than that", 7),
            part(b"the end only", 255, 256, b"nobody has the rest", 8),
            part(b"x", 0, 1, bytes(10), 9).replace(digest(bytes(10)), bytes(32)),
            CODEC.encode(elsewhere(b"next", 10))[0],
        )
        assert (await next_of(one)).content == b"next"
        assert sorted(f.detail for f in found) == [
            "1 of 2 segments are missing",
            "255 of 256 segments are missing",
            *["its segments are not those of the content that they name"] * 3,
        ]
        await publish(nodes[1], part(whole[5:], 1, 2, whole, 11))
        assert (await next_of(one)).content == whole
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xff",
        sds_pb2.Segment(entire_message_hash=bytes(31), segment_count=1, payload=b"x"),
        sds_pb2.Segment(entire_message_hash=bytes(32), segment_count=0, payload=b"x"),
        sds_pb2.Segment(entire_message_hash=bytes(32), segment_count=2, index=2, payload=b"x"),
        sds_pb2.Segment(entire_message_hash=bytes(32), segment_count=257, payload=b"x"),
        sds_pb2.Segment(entire_message_hash=bytes(32), segment_count=1, payload=b""),
        sds_pb2.Segment(
            entire_message_hash=bytes(32), segment_count=1, payload=b"x", is_parity=True
        ),
    ],
)
def test_what_is_no_data_segment_has_no_part_of_a_content(content: bytes | sds_pb2.Segment) -> None:
    data = content if isinstance(content, bytes) else content.SerializeToString()
    assert read_segment(data) == (data, Segment())


def test_a_segment_as_the_specification_has_it() -> None:
    """Keccak-256 of "hello" is that of Ethereum's documents."""
    hello = "1c8aff950685c2ed4bc3174f3472287b56d9517b9c948127319a09a7a36deac8"
    segment = Segment(digest(b"hello"), 0, 1, 5)
    raw = bytes.fromhex(f"0a20{hello}18012a0568656c6c6f3005")
    assert write_segment(segment, b"hello") == raw
    assert read_segment(raw) == (b"hello", segment)


async def test_a_reliable_channel_of_lip_173_sends_segments_only() -> None:
    """In nim-sds's schema, and without a field that only we know beside them."""
    interop = Interop(WireFormat.NIM, js_filter(100, 0.01), history=2, segments=True)
    contents = [b"small", b"small", CONTENT, b"small", CONTENT]
    async with (
        connected(2) as nodes,
        channels(nodes, SMALL, bind_sender=False, interop=interop) as (one, two),
    ):
        await subscribed(*nodes)
        for content in contents:
            await one.send(content)
            assert (await next_of(two)).content == content
        await one.send_ephemeral(b"typing")
        assert (await next_of(two)).content == b"typing"
        shown = await two.history()
        assert [m.content for m in shown] == contents
    with pytest.raises(ValueError, match="twice the filter"):
        Interop(segments=True).codec(replace(QUICK, max_message=30_000), lambda: 10**12)
    codec = interop.codec(QUICK, lambda: 10**12)
    foreign = sds_pb2.NimSdsMessage(
        message_id="m", lamport_timestamp=7, channel_id="0", sender_id="nim"
    )
    foreign.content = write_segment(Segment(digest(b"hello"), 0, 1, 5), b"hello")
    message = codec.decode(foreign.SerializeToString())
    assert (message.content, message.segment) == (b"hello", Segment(digest(b"hello"), 0, 1, 5))
    foreign.content = b"\x07 no segment"
    assert codec.decode(foreign.SerializeToString()).segment == Segment()
    assert not Codec(QUICK).segments


async def test_a_full_segment_fits_beside_the_filter() -> None:
    """121,199 bytes of at most 117,000."""
    params = replace(QUICK, max_message=136_000)
    interop = Interop(segments=True)
    async with (
        running_nodes(1, router=flood) as nodes,
        channels(nodes, params, bind_sender=False, interop=interop) as (one,),
    ):
        await one.send(bytes(1_500_000))
        assert len(one.log) == 15
        (shown,) = await one.history()
        assert shown.content == bytes(1_500_000)


@pytest.mark.parametrize("segments", [False, True])
async def test_an_ephemeral_message_may_be_as_large_as_any(segments: bool) -> None:
    """One just below max_message was refused."""
    interop = Interop(filters=js_filter(100, 0.01), segments=segments)
    params = replace(QUICK, max_message=10_000)
    async with (
        running_nodes(1, router=flood) as nodes,
        channels(nodes, params, bind_sender=False, interop=interop) as (one,),
    ):
        await one.send_ephemeral(bytes(9700))
        with pytest.raises(ValueError, match="at most 10000"):
            await one.send_ephemeral(bytes(10_000))
