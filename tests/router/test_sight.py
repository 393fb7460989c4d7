"""What an application sees of a topic: events, the first neighbour, and why there is none."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from libp2p import new_host
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.id import ID
from trio.testing import MockClock

from episub_router import (
    Alone,
    Banned,
    BootstrapFailed,
    EpisubRouter,
    EventsMissed,
    Joined,
    NeighborDown,
    NeighborUp,
    NotJoined,
    ResilientPubsub,
)
from episub_router.net.counters import DropLog, Ordinary, Reason
from episub_router.net.events import MAX_WAITING, TopicEvents, line_on
from episub_router.protocol.effects import DownReason
from tests.hosts import PATIENCE, Node, connect, eventually, running_nodes
from tests.router.overlays import TOPIC, count, router

SOMEBODY = ID.from_pubkey(create_new_key_pair(bytes(32)).public_key)


async def next_of(events: Any, kind: type) -> Any:
    """The next event of `kind`."""
    with trio.fail_after(PATIENCE):
        async for event in events:
            if isinstance(event, kind):
                return event
    raise AssertionError("the events ended")


def test_neighbours_are_read_while_another_thread_joins_topics() -> None:
    """As the metrics and an asyncio loop read them."""
    router = EpisubRouter()
    ResilientPubsub(new_host(), router)
    joined = cast(Any, router._attached().topics.joined)

    class Joining:
        def __iter__(self) -> Iterator[ID]:
            joined[f"topic {len(joined)}"] = SimpleNamespace(neighbors=set())
            return iter([SOMEBODY])

    joined[TOPIC] = SimpleNamespace(neighbors=Joining())
    assert router.mesh[TOPIC] == {SOMEBODY}


@pytest.mark.hosts
async def test_neighbours_come_and_go() -> None:
    async with running_nodes(2, router=EpisubRouter, pubsub_class=ResilientPubsub) as (one, two):
        events = router(one).events(TOPIC)
        await connect(one, two)
        for node in (one, two):
            await node.pubsub.subscribe(TOPIC)
        for node in (one, two):
            await router(node).joined(TOPIC, timeout=PATIENCE)
        assert await next_of(events, NeighborUp) == NeighborUp(TOPIC, two.id, 1)
        assert await next_of(events, Joined) == Joined(TOPIC, two.id, again=False)
        await two.pubsub.unsubscribe(TOPIC)
        down = NeighborDown(TOPIC, two.id, 0, DownReason.LEFT)
        assert await next_of(events, NeighborDown) == down
        assert await next_of(events, Alone) == Alone(TOPIC)
        await two.pubsub.subscribe(TOPIC)
        healed = await next_of(events, Joined)
        assert healed == Joined(TOPIC, two.id, again=True)
        assert line_on(healed).startswith(f"joined again with {str(two.id)[-8:]}: ")
        await one.pubsub.unsubscribe(TOPIC)
        await one.pubsub.subscribe(TOPIC)
        events = router(one).events(TOPIC)
        assert not (await next_of(events, Joined)).again


@pytest.mark.hosts
async def test_a_standing_that_the_application_sets_bans_or_protects() -> None:
    asked: list[tuple[str, ID]] = []

    def may_ban(topic: str, peer: ID) -> bool:
        asked.append((topic, peer))
        return len(asked) > 1

    def make() -> EpisubRouter:
        return EpisubRouter(may_ban=may_ban)

    async with running_nodes(2, router=make, pubsub_class=ResilientPubsub) as (one, two):
        events = router(one).events(TOPIC)
        await connect(one, two)
        for node in (one, two):
            await node.pubsub.subscribe(TOPIC)
        await router(one).joined(TOPIC, timeout=PATIENCE)
        router(one).set_standing(two.id, 5.0)
        [neighbor] = router(one).overlay(TOPIC).active
        assert (neighbor.peer, neighbor.standing) == (two.id, 5.0)
        router(one).set_standing(two.id, -100.0)
        assert asked == [(TOPIC, two.id)]
        assert [each.peer for each in router(one).overlay(TOPIC).active] == [two.id]
        router(one).set_standing(two.id, -100.0)
        assert (await next_of(events, Banned)).peer == two.id
        assert router(one).overlay(TOPIC).active == ()
        assert router(one).counters()["bans"] == 1


async def why_alone(node: Node) -> str:
    with pytest.raises(NotJoined) as waited:
        await router(node).joined(TOPIC, timeout=0.1)
    return str(waited.value)


@pytest.mark.hosts
async def test_reasons_when_there_is_no_neighbour() -> None:
    async with running_nodes(2, router=EpisubRouter, pubsub_class=ResilientPubsub) as (one, two):
        with pytest.raises(KeyError):
            await router(one).joined(TOPIC)
        await one.pubsub.subscribe(TOPIC)
        assert "no bootstrap address, no discovery, and no connected peer" in await why_alone(one)
        await two.pubsub.subscribe("other")
        await connect(one, two)
        assert "1 connected peers speak Episub; none is in 'news'" in await why_alone(one)


@pytest.mark.hosts
@pytest.mark.parametrize(
    ("port", "reason"),
    [(1, "nothing listens there"), (None, "does the peer there have another id")],
)
async def test_a_bootstrap_node_that_can_not_be_reached(port: int | None, reason: str) -> None:
    """A closed port; and a node with another peer id at that address."""
    async with running_nodes(1, router=EpisubRouter, pubsub_class=ResilientPubsub, seed=1) as [
        other
    ]:
        address = f"{other.info.addrs[0]}" if port is None else f"/ip4/127.0.0.1/tcp/{port}"
        address = f"{address}/p2p/{SOMEBODY}"
        async with running_nodes(
            1,
            router=lambda: EpisubRouter(bootstrap=[address]),
            pubsub_class=ResilientPubsub,
            seed=2,
        ) as [node]:
            events = router(node).events(TOPIC)
            await node.pubsub.subscribe(TOPIC)
            failed = await next_of(events, BootstrapFailed)
            assert f"{failed.address}/p2p/{SOMEBODY}" == address
            assert reason in failed.reason
            assert failed.reason in await why_alone(node)


@pytest.mark.hosts
async def test_a_dial_that_is_under_way_has_not_failed() -> None:
    [mute] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = f"/ip4/127.0.0.1/tcp/{mute.socket.getsockname()[1]}/p2p/{SOMEBODY}"
    async with running_nodes(
        1, router=lambda: EpisubRouter(bootstrap=[address]), pubsub_class=ResilientPubsub, seed=2
    ) as [node]:
        await node.pubsub.subscribe(TOPIC)
        await eventually(lambda: count(node, Ordinary.DIALS) == 1)
        assert "no peer has been found yet" in await why_alone(node)
    await mute.aclose()


@pytest.mark.hosts
async def test_the_same_key_twice() -> None:
    key = create_new_key_pair(bytes(32))  # that of the first of `running_nodes`
    address = f"/ip4/127.0.0.1/tcp/4001/p2p/{ID.from_pubkey(key.public_key)}"
    async with running_nodes(
        1, router=lambda: EpisubRouter(bootstrap=[address]), pubsub_class=ResilientPubsub
    ) as [node]:
        await node.pubsub.subscribe(TOPIC)
        assert "this node's own peer id: two nodes can't share a key" in await why_alone(node)


async def test_a_reader_that_is_behind_is_told_how_many_it_missed() -> None:
    events = TopicEvents()
    stream = events.read(TOPIC)
    for number in range(MAX_WAITING + 3):
        events.emit(NeighborUp(TOPIC, SOMEBODY, number))
    events.emit(NeighborUp("another", SOMEBODY, 0))
    assert await anext(stream) == EventsMissed(TOPIC, 3)
    got = [await anext(stream) for _ in range(MAX_WAITING)]
    assert got == [NeighborUp(TOPIC, SOMEBODY, number) for number in range(3, MAX_WAITING + 3)]


async def test_one_line_for_each_kind_of_drop_and_minute(
    caplog: pytest.LogCaptureFixture, mock_clock: MockClock
) -> None:
    """And every drop at DEBUG."""
    drops = DropLog()
    with caplog.at_level(logging.DEBUG, "episub_router.net.counters"):
        for _ in range(3):
            for _ in range(100):
                drops.counted(Reason.BACKLOG_FULL, 1)
            drops.counted(Ordinary.FRAMES_SENT, 1)
            drops.counted(Reason.REPLAYED, 2)
            mock_clock.jump(61)
    debug = [r.getMessage() for r in caplog.records if r.levelno == logging.DEBUG]
    assert debug == 3 * [*100 * ["backlog-full: 1"], "replayed: 2"]
    lines = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert [line.split(": ")[:2] for line in lines] == [
        ["backlog-full", f"{count} since the last line"] for count in (1, 100, 100)
    ]
    assert "raise RouterParams.backlog_bytes" in lines[0]
