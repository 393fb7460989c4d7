"""What applications do with a channel besides sending and iterating, on real hosts."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import trio
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.validators import PUBSUB_SIGNING_PREFIX

from episub_router import sds
from episub_router.sds import (
    ChannelMessage,
    ContentUnreadable,
    ExchangeError,
    LogItem,
    LogView,
    MemoryStore,
    Retention,
    SdsChannel,
    SqliteStore,
)
from episub_router.sds.content.contents import context_of
from episub_router.sds.content.events import EventFeed
from episub_router.sds.net import channel
from episub_router.sds.net.intake import Intake, proof_of, proven_sender
from episub_router.sds.protocol.entry import LogEntry
from episub_router.sds.protocol.log import Log
from episub_router.sds.protocol.message import HistoryEntry, Message, ReceivedMessage, Way
from episub_router.sds.store.values import Cursor
from episub_router.sds.wire.codec import Codec
from tests.hosts import PATIENCE, connect_all, eventually, running_nodes
from tests.sds.test_channel import QUICK, TOPIC, channels, connected, flood, next_of, subscribed

pytestmark = pytest.mark.hosts


class Sealed:
    """ChaCha20-Poly1305 with a random nonce in front."""

    def __init__(self, key: bytes) -> None:
        self._aead = ChaCha20Poly1305(key)
        self._nonces = 0

    def encrypt(self, content: bytes, context: bytes) -> bytes:
        self._nonces += 1
        nonce = self._nonces.to_bytes(12, "big")
        return nonce + self._aead.encrypt(nonce, content, context)

    def decrypt(self, data: bytes, context: bytes) -> bytes:
        return self._aead.decrypt(data[:12], data[12:], context)


async def unreadable(channel: SdsChannel, found: list[ContentUnreadable]) -> None:
    async for event in channel.events():
        if isinstance(event, ContentUnreadable):
            found.append(event)


def elsewhere(content: bytes, number: int, *history: HistoryEntry) -> Message:
    """A message of a member of another implementation."""
    return Message(
        sender_id="elsewhere",
        message_id=f"elsewhere {number}",
        channel_id="0",
        lamport=10**12 + number,
        causal_history=history,
        content=content,
    )


async def test_history_is_paged_from_both_ends_and_newcomers_choose_where_they_begin() -> None:
    async with running_nodes(3, router=flood) as nodes:
        await connect_all([(nodes[0], nodes[1]), (nodes[0], nodes[2])])
        async with channels(nodes[:1]) as (one,):
            sent = [(await one.send(b"%d" % n)).id for n in range(25)]
            newest: list[ChannelMessage] = []
            while page := await one.latest(before=newest[-1] if newest else None, limit=10):
                newest += page
            oldest: list[ChannelMessage] = []
            while page := await one.history(after=oldest[-1] if oldest else None, limit=10):
                oldest += page
            assert [m.id for m in oldest] == [m.id for m in reversed(newest)] == sent
            assert newest[0].content == b"24"
            with pytest.raises(ExchangeError, match="no peer"):
                await one.older()
            async with (
                channels(nodes[1:2], join_last=0) as (now,),
                channels(nodes[2:], join_last=3) as (last,),
            ):
                await subscribed(*nodes)
                await eventually(lambda: len(last.log) == 3)
                assert [(await next_of(last)).id for _ in range(3)] == sent[-3:]
                older: list[ChannelMessage] = []
                while page := await last.older(before=older[-1] if older else None, limit=10):
                    older += page
                assert [m.id for m in reversed(older)] == sent[:-3]
                assert older[0].content == b"21"
                assert {m.sender for m in older} == {one.sender_id}
                assert len(last.log) == 3
                later = []
                with trio.fail_after(PATIENCE):
                    while not now.log:  # its first peer's answer decides what is later
                        later.append((await one.send(b"later")).id)
                        assert (await next_of(last)).id == later[-1]
                assert (await next_of(now)).id == now.log[0].id
                # The next one may have been sent before the first arrived, and come after it.
                await eventually(lambda: list(now.log) == list(one.log)[-len(now.log) :])
                assert now.log[0].id in later
        with pytest.raises(ValueError, match="join_last"):
            SdsChannel(nodes[0].pubsub, TOPIC, join_last=-1)


def test_what_is_before_our_log_is_believed_with_its_proof_only() -> None:
    message = elsewhere(b"hello", 1)
    key = (message.lamport or 0, message.message_id)
    intake = Intake(TOPIC, Codec(QUICK), bind_sender=True)
    proven = ReceivedMessage(message, b"", Way.RELAYED)
    assert intake.proves_id(proven, "0", key)
    assert not intake.proves_id(replace(proven, way=Way.UNPROVEN), "0", key)
    assert not intake.proves_id(proven, "0", (key[0] + 1, key[1]))
    assert not intake.proves_id(proven, "1", key)


def test_a_proof_with_a_padded_key_is_none() -> None:
    """Keys are kept, which took 900 kB for each of 4,096."""
    pair = create_new_key_pair(b"a" * 32)
    author, data = ID.from_pubkey(pair.public_key).to_bytes(), b"data"
    message = rpc_pb2.Message(data=data, topicIDs=["t"], from_id=author, seqno=bytes(8))
    signed = PUBSUB_SIGNING_PREFIX.encode() + message.SerializeToString()
    message.signature = pair.private_key.sign(signed)
    for key, expected in ((b"", str(ID(author))), (bytes(900_000), None)):
        message.key = key
        assert proven_sender(data, proof_of(message), "t") == expected


def test_what_is_told_on_opening_the_first_reader_gets() -> None:
    """`Damaged` was told before anybody could listen."""
    feed: EventFeed[str] = EventFeed(Counter())
    feed.tell("damaged")
    first, second = feed.watch(), feed.watch()
    feed.tell("later")
    assert [first.receive_nowait(), first.receive_nowait()] == ["damaged", "later"]
    assert second.receive_nowait() == "later"


async def read(
    channel: SdsChannel,
    after: str | None,
    count: int,
    *,
    hold: float = 0.0,
) -> list[ChannelMessage]:
    """The next messages of the stream."""
    result: list[ChannelMessage] = []
    with trio.fail_after(PATIENCE):
        async for message in channel.stream(after, hold=hold):
            result.append(message)
            if len(result) == count:
                break
    return result


async def test_what_comes_late_is_announced_or_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(channel, "time", SimpleNamespace(time=lambda: now[0]))
    async with running_nodes(2, router=flood) as nodes, channels(nodes) as (one, two):
        early = (await two.send(b"early")).id
        ids = [(await one.send(b"%d" % n)).id for n in range(2)]
        assert [m.id for m in await read(one, None, 2)] == ids
        cursor = (await read(one, None, 2))[-1].cursor
        clocks = [item.clock for item in one.log]
        now[0] = clocks[-1] / 1000 + 9
        async with trio.open_nursery() as nursery:
            held: list[ChannelMessage] = []

            async def read_held() -> None:
                held.extend(await read(one, None, 3, hold=10.0))

            nursery.start_soon(read_held)
            await connect_all([(nodes[0], nodes[1])])
            await eventually(lambda: len(one.log) == 3)
            now[0] += 11
        assert [(m.id, m.late) for m in held] == [(item.id, False) for item in one.log]
        (late,) = await read(one, cursor, 1)
        assert (late.id, late.late) == (early, True)


async def test_a_stream_is_one_order_for_all_and_goes_on_at_its_cursor() -> None:
    async with connected(2) as nodes:
        async with channels(nodes) as (one, two):
            await subscribed(*nodes)
            for n in range(3):
                await one.send(b"one %d" % n)
                await two.send(b"two %d" % n)
            await eventually(lambda: len(one.log) == len(two.log) == 6)

            first, second = await read(one, None, 6), await read(two, None, 6)
            assert [m.id for m in first] == [m.id for m in second] == [i.id for i in one.log]
            assert {m.sender for m in first} == {one.sender_id, two.sender_id}
            assert not any(m.late for m in first)
            rest = await read(one, first[2].cursor, 3)
            assert [m.content for m in rest] == [m.content for m in first[3:]]
            assert set(one.members) == {one.sender_id, two.sender_id}
        with pytest.raises(ValueError, match="no cursor"):
            Cursor.read("[1]")


def test_the_log_is_looked_at_without_a_copy() -> None:
    log = Log()
    for n in range(50_000):
        log.add(f"m{n}", LogEntry(n, "ann", 0), (), head=False)
    view = LogView(lambda: log)
    tracemalloc.start()
    assert len(view) == 50_000
    assert view[-1] == LogItem("m49999", "ann", 49_999)
    assert view[10] == view[10:12][0] == LogItem("m10", "ann", 10)
    assert tracemalloc.get_traced_memory()[1] < 10_000
    tracemalloc.stop()
    log.evict()
    assert view[0].id == "m1"
    assert view[:2] == (LogItem("m1", "ann", 1), LogItem("m2", "ann", 2))
    assert view == tuple(view)
    assert view != tuple(view)[1:]
    with pytest.raises(IndexError, match="has 49999 messages"):
        view[49_999]


@pytest.mark.parametrize("kind", [MemoryStore, SqliteStore])
async def test_a_members_store_keeps_by_number_age_and_size(
    kind: type[SqliteStore], tmp_path: Path
) -> None:
    store = MemoryStore() if kind is MemoryStore else SqliteStore(tmp_path / "two.db")
    store.retention = Retention(None, None, max_messages=4, interval=0.05)
    async with connected(2) as nodes, channels(nodes[:1]) as (one,):
        for n in range(10):
            await one.send(b"%d" % n)
        async with SdsChannel(nodes[1].pubsub, TOPIC, params=QUICK, store=store) as two:
            await eventually(lambda: two.stats["purged"] == 6)
            assert [m.content for m in await two.history()] == [b"6", b"7", b"8", b"9"]
            got = [(await next_of(two)).content for _ in range(4)]
            assert got == [b"%d" % n for n in range(6, 10)]
            store.retention = Retention(None, 1, interval=0.05)
            await eventually(lambda: two.stats["purged"] >= 9)
            assert len(two.log) <= 1
            # What doesn't fit may go before it is read.
            store.retention = Retention()
            await one.send(b"more")
            assert (await next_of(two)).content == b"more"
    store.close()


async def test_only_members_with_the_key_can_read() -> None:
    key = ChaCha20Poly1305.generate_key()
    async with running_nodes(3, router=flood) as nodes:
        await connect_all([(nodes[0], nodes[1]), (nodes[0], nodes[2])])
        async with (
            channels(nodes[:1], cipher=Sealed(key)) as (ann,),
            channels(nodes[1:2], cipher=Sealed(key)) as (bob,),
            channels(nodes[2:], cipher=Sealed(ChaCha20Poly1305.generate_key())) as (eve,),
            trio.open_nursery() as nursery,
        ):
            found: list[ContentUnreadable] = []
            nursery.start_soon(unreadable, eve, found)
            nursery.start_soon(eve.__anext__)
            await subscribed(*nodes)
            secret = await ann.send(b"for bob")
            await ann.send_ephemeral(b"psst")
            got = {(await next_of(bob)).content for _ in range(2)}
            assert got == {b"for bob", b"psst"}
            await eventually(lambda: len(found) == 2)
            assert {f.sender for f in found} == {ann.sender_id}
            assert "InvalidTag" in found[0].detail
            (shown,) = await eve.latest()
            assert (shown.id, shown.content, shown.readable) == (secret.id, b"", False)
            (mine,) = await ann.latest()
            assert mine.content == b"for bob"
            assert len(nursery.child_tasks) == 2, "eve got something"
            nursery.cancel_scope.cancel()


def test_a_sealed_content_is_bound_to_its_place() -> None:
    places = {context_of(*p) for p in [("a", "bc", "d"), ("ab", "c", "d"), ("a", "b", "cd")]}
    assert len(places) == 3


async def test_a_newcomer_begins_with_a_snapshot_and_streams_what_follows() -> None:
    """With a cipher: who hands it out may be somebody without the key."""
    key = bytes(32)
    soon = replace(QUICK, confirm_delay=0.5)
    async with connected(3) as nodes, channels(nodes[:2], soon, cipher=Sealed(key)) as (one, two):
        await subscribed(*nodes[:2])
        for n in range(4):
            await (await (one, two)[n % 2].send(b"%d" % n)).acknowledged()
        until = one.log[-1].clock
        with pytest.raises(ValueError, match="content"):
            await one.give_snapshot(b"", until)
        with pytest.raises(ValueError, match="has been said"):
            await one.give_snapshot(b"0123", until + 10**9)
        for each in (one, two):
            await each.give_snapshot(b"0123", until)
        await eventually(lambda: len(one.log) == len(two.log) == 6)
        last = await one.send(b"4")
        await last.acknowledged()
        assert await one.forget(signers=3) == 0
        assert await one.forget(signers=2) == until
        assert [item.clock > until for item in one.log] == [True] * 3
        async with channels(nodes[2:], cipher=Sealed(key), join_snapshot=2) as (three,):
            snapshot = await three.snapshot(PATIENCE)
            assert (snapshot.state, snapshot.until) == (b"0123", until)
            with trio.fail_after(PATIENCE):
                async for message in three.stream(after=snapshot.cursor):
                    assert (message.id, message.content) == (last.id, b"4")
                    break
            await eventually(lambda: len(three.log) == 3)
            assert set(three.members) == {one.sender_id, two.sender_id}


async def test_who_gave_a_snapshot_streams_what_follows_it() -> None:
    """All that came before was `late`."""
    async with running_nodes(1, router=flood) as nodes, channels(nodes) as (one,):
        for n in range(3):
            await one.send(b"%d" % n)
        await read(one, None, 3)
        await one.give_snapshot(b"012", one.log[-1].clock)
        sent = await one.send(b"3")
        (first,) = await read(one, (await one.snapshot()).cursor, 1)
        assert (first.id, first.late) == (sent.id, False)


async def test_what_comes_while_a_snapshot_is_made_is_late_after_it() -> None:
    """It was never shown to who began at the snapshot."""
    async with running_nodes(2, router=flood) as nodes, channels(nodes) as (one, two):
        early = (await two.send(b"early")).id
        for n in range(2):
            await one.send(b"%d" % n)
        await read(one, None, 2)
        await connect_all([(nodes[0], nodes[1])])
        await eventually(lambda: len(one.log) == 3)
        await one.give_snapshot(b"01", one.log[-1].clock)
        (late,) = await read(one, (await one.snapshot()).cursor, 1)
        assert (late.id, late.late) == (early, True)


@asynccontextmanager
async def sender_and_reader(store: SqliteStore) -> AsyncIterator[tuple[SdsChannel, SdsChannel]]:
    """Two members that are connected; `store` is the second one's."""
    async with (
        connected(2) as nodes,
        channels(nodes[:1]) as (one,),
        channels(nodes[1:], store=store) as (two,),
    ):
        yield one, two


async def test_a_stream_takes_nothing_from_who_reads_more_slowly() -> None:
    """Iteration began after what was streamed."""
    got: list[ChannelMessage] = []

    async def stream(channel: SdsChannel) -> None:
        async for message in channel.stream():
            got.append(message)

    async with sender_and_reader(MemoryStore()) as (one, two), trio.open_nursery() as nursery:
        nursery.start_soon(stream, two)
        for n in range(3):
            await one.send(b"%d" % n)
            await eventually(lambda n=n: len(got) == n + 1)
        assert (await next_of(two)).content == b"0"
        nursery.cancel_scope.cancel()


async def test_who_is_alone_begins_without_a_snapshot() -> None:
    async with running_nodes(1, router=flood) as nodes:
        with pytest.raises(ValueError, match="join_snapshot"):
            SdsChannel(nodes[0].pubsub, TOPIC, join_last=1, join_snapshot=1)
        async with channels(nodes, join_snapshot=2) as (one,):
            assert await one.snapshot(0.01) is None
            await one.send(b"first")
            assert len(one.log) == 1


async def test_a_channel_opened_in_one_line_is_on_this_machine_and_raises_what_it_is_given() -> (
    None
):
    """It listened at all interfaces, and raised groups of groups."""
    addresses: list[str] = []

    async def failing() -> None:
        async with sds.open("room") as channel:
            addresses.extend(channel.addresses)
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await failing()
    assert addresses
    assert all(address.startswith("/ip4/127.0.0.1/") for address in addresses)
