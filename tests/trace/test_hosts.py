"""Traces of real hosts: what happened is in them, with every router."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from libp2p import new_host
from libp2p.abc import IPubsubRouter
from libp2p.custom_types import TProtocol
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pubsub import Pubsub

from episub_router import EpisubRouter, ResilientPubsub
from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.sds import SdsChannel, SqliteStore
from episub_router.trace.kinds import kind_of
from episub_router.trace.tracer import Tracer
from tests.fallback.mixed import gossipsub, network, subscribe
from tests.hosts import (
    PATIENCE,
    Node,
    connect_all,
    eventually,
    receive,
    running_nodes,
    subscribe_all,
)
from tests.trace.samples import checked, events_of

pytestmark = pytest.mark.hosts

TOPIC = "news"


@contextmanager
def tracers(directory: Path) -> Iterator[Iterator[Tracer]]:
    """Tracers for n0.pb, n1.pb and so on; closed at the end."""
    made: list[Tracer] = []

    def make() -> Iterator[Tracer]:
        while True:
            made.append(Tracer(directory / f"n{len(made)}.pb", name=f"n{len(made)}"))
            yield made[-1]

    try:
        yield make()
    finally:
        for tracer in made:
            tracer.close()


@asynccontextmanager
async def episub_nodes(count: int, traces: Iterator[Tracer]) -> AsyncIterator[list[Node]]:
    def router() -> IPubsubRouter:
        return EpisubRouter(seed=0, tracer=next(traces))

    async with running_nodes(count, router=router, pubsub_class=ResilientPubsub) as nodes:
        yield nodes


def whole(path: Path) -> list[TraceEvent]:
    assert checked(path).complete
    return events_of(path)


def of_kind(events: list[TraceEvent], kind: str) -> list[Any]:
    return [getattr(event, kind) for event in events if kind_of(event) == kind]


def count(nodes: list[Node], counter: str) -> int:
    return sum(node.router.counters()[counter] for node in nodes)


async def test_everything_that_three_episub_hosts_do_is_in_their_traces(tmp_path: Path) -> None:
    with tracers(tmp_path) as traces:
        async with episub_nodes(3, traces) as nodes:
            await connect_all([(nodes[0], nodes[1]), (nodes[1], nodes[2]), (nodes[0], nodes[2])])
            subscriptions = await subscribe_all(nodes, TOPIC)
            await eventually(lambda: all(len(n.router.mesh[TOPIC]) == 2 for n in nodes))
            for number in range(5):
                await nodes[number % 3].pubsub.publish(TOPIC, b"%d" % number)
                for subscription in subscriptions:
                    await receive(subscription)
            ids = [node.id.to_bytes() for node in nodes]
            # A duplicate that comes after the topic was left isn't the topic's any more.
            await eventually(
                lambda: count(nodes, "payloads-sent") == count(nodes, "payloads-received")
            )
            await nodes[2].pubsub.unsubscribe(TOPIC)
            await eventually(lambda: all(len(n.router.mesh[TOPIC]) == 1 for n in nodes[:2]))
    # Counted to the end: a last copy may come after the first ones were delivered.
    counters = [node.router.counters() for node in nodes]
    traces_of = [whole(tmp_path / f"n{number}.pb") for number in range(3)]
    for number, events in enumerate(traces_of):
        assert {event.peerID for event in events} == {ids[number]}
        assert events[0].header.router == "episub"
        assert len(of_kind(events, "publishMessage")) == (2, 2, 1)[number]
        delivered = [e for e in events if kind_of(e) == "deliverMessage"]
        assert len({e.deliverMessage.messageID for e in delivered}) == len(delivered) == 5
        for event in delivered:
            own = event.deliverMessage.receivedFrom == ids[number]
            assert event.payload.hops == 0 if own else event.payload.hops in (1, 2)
            assert event.payload.size > 100
        sent = [e for e in events if kind_of(e) == "sendRPC"]
        frames = Counter(e.frame.HasField("seq") for e in sent)
        assert frames[True] >= counters[number]["frames-sent"]
        payloads = sum(len(e.sendRPC.meta.messages) for e in sent)
        assert payloads == counters[number]["payloads-sent"]
        received = sum(len(rpc.meta.messages) for rpc in of_kind(events, "recvRPC"))
        assert received == counters[number]["payloads-received"]
        # Each copy is a delivery of another's message or a duplicate, with its way's length.
        duplicates = [e for e in events if kind_of(e) == "duplicateMessage"]
        foreign = sum(e.deliverMessage.receivedFrom != ids[number] for e in delivered)
        assert received == foreign + len(duplicates)
        assert all(e.payload.hops >= 1 for e in duplicates)
        up = [change for change in of_kind(events, "neighbor") if change.up]
        assert {change.peerID for change in up} == set(ids) - {ids[number]}
        assert all(change.kind in ("near", "random") for change in up)
        grafts = Counter(graft.peerID for graft in of_kind(events, "graft"))
        assert set(grafts) == set(ids) - {ids[number]}
        assert len(of_kind(events, "join")) == 1
        assert len(of_kind(events, "onNewOutboundStream")) >= 2
    last = traces_of[2]
    assert len(of_kind(last, "leave")) == 1
    down = [change for change in of_kind(last, "neighbor") if not change.up]
    assert {change.reason for change in down} == {"left"}
    names = {name for events in traces_of for e in events for name in e.frame.control}
    # PRUNE goes out a little after a duplicate, and perhaps not before the topic is left.
    assert names >= {"GETNODES", "NEIGHBOR-ACCEPT", "GRAFT", "LEAVE"}


async def test_gossipsub_is_traced_through_its_pubsub(tmp_path: Path) -> None:
    with tracers(tmp_path) as traces:

        def router() -> IPubsubRouter:
            protocols = [TProtocol("/meshsub/1.1.0")]
            return GossipSub(protocols, degree=3, degree_low=1, degree_high=6, heartbeat_interval=1)

        async with running_nodes(
            3,
            router=router,
            pubsub_class=lambda *a, **o: ResilientPubsub(*a, tracer=next(traces), **o),  # type: ignore[arg-type]
        ) as nodes:
            await connect_all([(nodes[0], nodes[1]), (nodes[1], nodes[2]), (nodes[0], nodes[2])])
            subscriptions = await subscribe_all(nodes, TOPIC)
            await eventually(lambda: all(len(n.router.mesh.get(TOPIC, ())) == 2 for n in nodes))
            await nodes[0].pubsub.publish(TOPIC, b"hello")
            for subscription in subscriptions:
                await receive(subscription)
            ids = [node.id.to_bytes() for node in nodes]
            await nodes[0].pubsub.unsubscribe(TOPIC)
            others = nodes[1:]
            await eventually(lambda: all(nodes[0].id not in n.router.mesh[TOPIC] for n in others))
    for number in range(3):
        events = whole(tmp_path / f"n{number}.pb")
        assert events[0].header.router == "gossipsub"
        (delivered,) = of_kind(events, "deliverMessage")
        assert delivered.receivedFrom in ids[:1] if number == 0 else ids
        assert len(of_kind(events, "publishMessage")) == (number == 0)
        grafts = {graft.peerID for graft in of_kind(events, "graft")}
        assert grafts == set(ids) - {ids[number]}
        pruned = {prune.peerID for prune in of_kind(events, "prune")}
        assert pruned >= (grafts if number == 0 else {ids[0]})
        announced = [
            option.topic for rpc in of_kind(events, "recvRPC") for option in rpc.meta.subscription
        ]
        assert TOPIC in announced


async def test_mesh_links_of_the_fallback_are_traced(tmp_path: Path) -> None:
    with tracers(tmp_path) as traces:
        tracer = next(traces)
        routers = [lambda: EpisubRouter(seed=0, tracer=tracer), gossipsub]
        async with network(routers, [(0, 1)]) as (ours, stock):
            await subscribe([ours, stock])
            await ours.pubsub.unsubscribe(TOPIC)
    events = whole(tmp_path / "n0.pb")
    for kind in ("graft", "prune"):
        (change,) = of_kind(events, kind)
        assert (change.peerID, change.topic) == (stock.id.to_bytes(), TOPIC)
    assert not of_kind(events, "neighbor")


async def test_rejects_have_go_s_reasons(tmp_path: Path) -> None:
    with tracers(tmp_path) as traces:
        async with episub_nodes(2, traces) as (a, b):
            await connect_all([(a, b)])
            for node in (a, b):
                await node.pubsub.subscribe(TOPIC)
            await eventually(lambda: bool(a.router.mesh[TOPIC]) and bool(b.router.mesh[TOPIC]))
            verdicts: list[bytes] = []

            def refuse(forwarder: Any, message: Any) -> bool:
                verdicts.append(message.data)
                return False

            b.pubsub.set_topic_validator(TOPIC, refuse, is_async_validator=False)
            await a.pubsub.publish(TOPIC, b"refused")
            await eventually(lambda: bool(verdicts))
            b.pubsub.remove_topic_validator(TOPIC)
            b.pubsub.add_to_blacklist(a.id)
            await b.pubsub.push_msg(a.id, b_message(a, b"from a blacklisted peer"))
            b.pubsub.remove_from_blacklist(a.id)
            forged = b_message(a, b"forged")
            forged.signature = b"x" * 64
            await b.pubsub.push_msg(a.id, forged)
            forged.signature = b""
            await b.pubsub.push_msg(a.id, forged)
    rejects = of_kind(whole(tmp_path / "n1.pb"), "rejectMessage")
    assert [reject.reason for reject in rejects] == [
        "validation failed",
        "blacklisted peer",
        "invalid signature",
        "missing signature",
    ]
    assert all(reject.topic == TOPIC and reject.messageID for reject in rejects)


def b_message(node: Node, data: bytes) -> Any:
    """A signed message of `node`'s."""
    from episub_router.sds.net.intake import sign

    return sign(node.pubsub, TOPIC, data)


async def test_sds_is_in_the_same_trace(tmp_path: Path) -> None:
    with tracers(tmp_path) as traces:
        async with episub_nodes(2, traces) as (a, b):
            await connect_all([(a, b)])
            async with (
                SdsChannel(a.pubsub, "room") as from_a,
                SdsChannel(b.pubsub, "room") as from_b,
            ):
                await eventually(lambda: bool(a.router.mesh["room"]))
                first = await from_a.send(b"first")
                with trio.fail_after(PATIENCE):
                    received = await from_b.__anext__()
                    assert received.id == first.id
                    second = await from_b.send(b"second")
                    await first.acknowledged()
                await from_b._driver._republish(first.id)
    sent_a, sent_b = (
        [e.send for e in of_kind(whole(tmp_path / f"n{n}.pb"), "sds") if e.HasField("send")]
        for n in range(2)
    )
    contents = [send for send in (*sent_a, *sent_b) if send.purpose == "content"]
    assert [send.messageID for send in contents] == [first.id, second.id]
    assert list(contents[1].causalHistory) == [first.id]
    assert contents[0].lamport < contents[1].lamport
    repairs = [send.messageID for send in sent_b if send.purpose == "repair"]
    assert repairs == [first.id], "its author's proof is no part of it"
    events = of_kind(whole(tmp_path / "n1.pb"), "sds")
    (delivery,) = [event.deliver for event in events if event.HasField("deliver")]
    assert (delivery.messageID, delivery.sender, delivery.position) == (
        first.id,
        a.id.to_base58(),
        1,
    )
    acks = [e.ack for e in of_kind(whole(tmp_path / "n0.pb"), "sds") if e.HasField("ack")]
    assert {ack.messageID for ack in acks} == {first.id}
    assert {ack.by for ack in acks if not ack.HasField("probability")} == {b.id.to_base58()}


async def test_what_sds_fetches_again_for_a_damaged_row_is_delivered_once(tmp_path: Path) -> None:
    path = tmp_path / "b.db"
    with tracers(tmp_path) as traces:
        async with (
            episub_nodes(2, traces) as (a, b),
            SdsChannel(a.pubsub, "room") as from_a,
        ):
            await connect_all([(a, b)])
            with closing(SqliteStore(path)) as store:
                async with SdsChannel(b.pubsub, "room", store=store) as from_b:
                    sent = await from_a.send(b"hello")
                    with trio.fail_after(PATIENCE):
                        await from_b.__anext__()
            with closing(sqlite3.connect(path)) as db, db:
                db.execute("UPDATE message SET raw = x'FFFF'")
            with closing(SqliteStore(path)) as store:
                async with SdsChannel(b.pubsub, "room", store=store) as from_b:
                    log = from_b._driver.participant.log
                    assert sent.id not in log
                    await eventually(lambda: sent.id in log)
    events = of_kind(whole(tmp_path / "n1.pb"), "sds")
    assert [e.deliver.messageID for e in events if e.HasField("deliver")] == [sent.id]


async def test_a_tracer_needs_a_pubsub_that_can_be_watched(tmp_path: Path) -> None:
    host = new_host()
    with tracers(tmp_path) as traces, pytest.raises(ValueError, match="ResilientPubsub"):
        Pubsub(host, EpisubRouter(tracer=next(traces)))
