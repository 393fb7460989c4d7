"""Beside py-libp2p's own classes: its Pubsub underneath, its GossipSub at the other end."""

from __future__ import annotations

import pytest
from libp2p import new_host
from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V12, PROTOCOL_ID_V13, GossipSub
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service import background_trio_service

from episub_router import PROTOCOL_ID, EpisubRouter, ResilientPubsub
from episub_router.net.connections import dialer
from episub_router.net.counters import Reason
from tests.hosts import connect, eventually, receive, running_nodes
from tests.router.overlays import TOPIC, count, joined, overlay_of, parts, record, router

pytestmark = pytest.mark.hosts


def gossipsub() -> GossipSub:
    return GossipSub([TProtocol("/meshsub/1.1.0")], degree=3, degree_low=2, degree_high=4)


@pytest.mark.parametrize("pubsub_class", [Pubsub, ResilientPubsub])
async def test_it_works_under_either_pubsub(pubsub_class: type[Pubsub]) -> None:
    async with overlay_of(3, pubsub_class=pubsub_class) as (nodes, subscriptions):
        await nodes[2].pubsub.publish(TOPIC, b"hello")
        for subscription in subscriptions:
            assert [m.data for m in await receive(subscription)] == [b"hello"]


async def test_without_a_fallback_peers_that_only_speak_meshsub_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dialer, "STREAM_TIMEOUT", 0.2)
    async with (
        overlay_of(2, fallback=None) as (nodes, subscriptions),
        running_nodes(1, router=gossipsub, seed=1) as [stranger],
    ):
        await stranger.pubsub.subscribe(TOPIC)
        await stranger.host.connect(nodes[0].info)
        parts(nodes[0]).peers.request(record(nodes[0], stranger))
        await eventually(lambda: count(nodes[0], Reason.NO_EPISUB_STREAM) == 1)
        assert stranger.id not in router(nodes[0]).peer_protocol
        await nodes[0].pubsub.publish(TOPIC, b"among us")
        for subscription in subscriptions:
            assert [m.data for m in await receive(subscription)] == [b"among us"]
        assert count(nodes, Reason.ERROR) == 0
        assert nodes[0].host.get_network().get_connections(stranger.id)


class Prefers(EpisubRouter):
    """Offers two protocols, in its own order, as a router with a fallback does."""

    def __init__(self, *protocols: TProtocol) -> None:
        super().__init__()
        self.preferred = list(protocols)

    def get_protocols(self) -> list[TProtocol]:
        return self.preferred


async def test_peers_that_prefer_different_protocols_settle_on_episub() -> None:
    meshsub = TProtocol("/meshsub/1.1.0")
    async with (
        running_nodes(1, router=lambda: Prefers(PROTOCOL_ID, meshsub)) as [one],
        running_nodes(1, router=lambda: Prefers(meshsub, PROTOCOL_ID), seed=1) as [other],
    ):
        await connect(one, other)
        assert one.router.peer_protocol == {other.id: PROTOCOL_ID}
        assert other.router.peer_protocol == {one.id: meshsub}
        subscriptions = [await node.pubsub.subscribe(TOPIC) for node in (one, other)]
        await joined([one, other])
        await one.pubsub.publish(TOPIC, b"one")
        await other.pubsub.publish(TOPIC, b"other")
        for subscription in subscriptions:
            assert {m.data for m in await receive(subscription, 2)} == {b"one", b"other"}


async def test_what_py_libp2p_expects_of_a_router() -> None:
    async with overlay_of(3) as (nodes, _):
        node = nodes[0]
        others = {other.id for other in nodes[1:]}
        assert node.router.get_protocols()[0] == PROTOCOL_ID
        assert node.router.mesh == {TOPIC: others}
        assert node.router.fanout == {}
        assert node.router.degree == 8
        assert node.router.peer_protocol == dict.fromkeys(others, PROTOCOL_ID)
        await node.pubsub.wait_for_mesh(nodes[1].id, TOPIC)


async def test_the_snapshot() -> None:
    async with overlay_of(3) as (nodes, subscriptions):
        for number in range(3):
            await nodes[0].pubsub.publish(TOPIC, b"%d" % number)
            for subscription in subscriptions:
                await receive(subscription)
        overlay = router(nodes[1]).overlay(TOPIC)
        assert {entry.peer for entry in overlay.active} == {nodes[0].id, nodes[2].id}
        assert {*overlay.eager, *overlay.lazy} == {nodes[0].id, nodes[2].id}
        assert sum(overlay.hops.values()) == overlay.counters["delivered"] == 3
        assert set(overlay.hops) <= {1, 2}
        assert router(nodes[0]).overlay(TOPIC).hops == {0: 3}
        assert (overlay.validating, overlay.missing) == (0, 0)


async def test_hooks_may_come_before_during_and_after_the_service() -> None:
    async with running_nodes(1, router=EpisubRouter) as (other,):
        idle = EpisubRouter()
        pubsub = Pubsub(new_host(), idle)
        try:
            await idle.join(TOPIC)
            idle.add_peer(other.id, PROTOCOL_ID)
            await idle.on_peer_subscribed(other.id, TOPIC)
            await idle.flush_pending_messages(other.id)
            async with background_trio_service(idle):
                idle.remove_peer(other.id)
                idle.remove_peer(other.id)
                await idle.leave(TOPIC)
                await idle.leave(TOPIC)
                await idle.join(TOPIC)
            await idle.join("another")
            await idle.on_peer_subscribed(other.id, TOPIC)
            idle.add_peer(other.id, PROTOCOL_ID)
            idle.remove_peer(other.id)
            assert idle._counters[Reason.ERROR] == 0
            assert idle.mesh.get(TOPIC, set()) == set()
        finally:
            pubsub.seen_messages.stop()


def test_hooks_before_attach_say_what_is_wrong() -> None:
    with pytest.raises(RuntimeError, match="isn't attached"):
        EpisubRouter().overlay(TOPIC)


def test_peers_added_before_attach_are_known() -> None:
    idle = EpisubRouter()
    for number, protocol in enumerate([PROTOCOL_ID_V13, PROTOCOL_ID_V12]):
        idle.add_peer(ID(b"%d" % number), protocol)
    assert idle.supports_v13_features(ID(b"0"))
    assert not idle.supports_v13_features(ID(b"1"))
