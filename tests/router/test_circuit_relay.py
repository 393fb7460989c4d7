"""Nodes that nobody can dial, behind a relay: others reach them through it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio
from libp2p import new_host
from libp2p.connection_types import ConnectionType
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.keys import KeyPair
from libp2p.peer.id import ID
from libp2p.pubsub.pb.rpc_pb2 import Message
from libp2p.relay.circuit_v2.protocol import CircuitV2Protocol
from libp2p.relay.circuit_v2.resources import RelayLimits
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

import episub_router
from episub_router import EpisubRouter, NotJoined, RouterParams, TopicHandle
from episub_router.net.connections.circuits import relay_of
from tests.hosts import LOOPBACK, PATIENCE, eventually

pytestmark = pytest.mark.hosts

LIMITS = RelayLimits(duration=3600, data=1 << 30, max_circuit_conns=16, max_reservations=16)
TOPIC = "news"


@asynccontextmanager
async def a_relay(
    key_pair: KeyPair | None = None, listen: Multiaddr = LOOPBACK
) -> AsyncIterator[Multiaddr]:
    """Run a relay; where to listen to be reached through it."""
    host = new_host(key_pair=key_pair)
    hop = CircuitV2Protocol(host, LIMITS, allow_hop=True)
    async with host.run([listen]), background_trio_service(hop):
        yield Multiaddr(f"{host.get_addrs()[0]}/p2p-circuit")


def types(node: TopicHandle, peer: ID) -> set[ConnectionType]:
    """How `node` is connected to `peer`."""
    network = node.pubsub.host.get_network()
    return {each.get_connection_type() for each in network.get_connections(peer)}


async def get(node: TopicHandle) -> bytes:
    with trio.fail_after(PATIENCE):
        item = await anext(node)
    assert isinstance(item, Message)
    return item.data


async def test_a_node_behind_a_relay_is_dialled_and_named_to_others() -> None:
    """The second node knows it from the bootstrap list. The third one, which nobody can dial
    either, has its signed record from the second."""
    async with (
        a_relay() as relay,
        episub_router.open(TOPIC, listen=[relay]) as hidden,
        episub_router.open(TOPIC, bootstrap=hidden.addresses) as second,
        episub_router.open(TOPIC, listen=[], bootstrap=second.addresses) as third,
    ):
        me = hidden.pubsub.my_id
        assert [str(address) for address in hidden.addresses] == [f"{relay}/p2p/{me}"]
        await eventually(lambda: len(hidden.neighbors) == 2 and me in third.neighbors)
        for node in (second, third):
            assert types(node, me) == {ConnectionType.RELAYED}
        assert types(second, third.pubsub.my_id) == {ConnectionType.DIRECT}
        for author in (hidden, third):
            await author.publish(author.pubsub.my_id.to_bytes())
            for node in (hidden, second, third):
                assert await get(node) == author.pubsub.my_id.to_bytes()


async def test_an_overlay_of_which_all_are_behind_a_relay() -> None:
    async with AsyncExitStack() as stack:
        relay = await stack.enter_async_context(a_relay())
        nodes: list[TopicHandle] = []
        for _ in range(4):
            bootstrap = nodes[-1].addresses if nodes else ()
            made = episub_router.open(TOPIC, listen=[relay], bootstrap=bootstrap)
            nodes.append(await stack.enter_async_context(made))
            if bootstrap:
                await nodes[-1].joined(PATIENCE)
        for author in nodes:
            await author.publish(author.pubsub.my_id.to_bytes())
        authors = {node.pubsub.my_id.to_bytes() for node in nodes}
        for node in nodes:
            assert {await get(node) for _ in nodes} == authors


async def test_a_circuit_that_is_lost_is_dialled_again() -> None:
    async with (
        a_relay() as relay,
        episub_router.open(TOPIC, listen=[relay]) as hidden,
        episub_router.open(TOPIC, bootstrap=hidden.addresses) as other,
    ):
        await other.joined(PATIENCE)
        before = other.pubsub.host.get_network().get_connections(hidden.pubsub.my_id)
        await other.pubsub.host.disconnect(hidden.pubsub.my_id)
        await eventually(lambda: hidden.pubsub.my_id in other.neighbors)
        after = other.pubsub.host.get_network().get_connections(hidden.pubsub.my_id)
        assert not set(after) & set(before)
        await hidden.publish(b"again")
        assert await get(other) == b"again"


async def test_a_relay_that_restarts_gives_the_place_again() -> None:
    key_pair = create_new_key_pair()

    async def serve(listen: Multiaddr, *, task_status: Any) -> None:
        with trio.CancelScope() as life:
            async with a_relay(key_pair, listen) as relay:
                task_status.started((relay, life))
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        relay, life = await nursery.start(serve, LOOPBACK)
        async with episub_router.open(TOPIC, listen=[relay]) as hidden:
            assert hidden.addresses
            life.cancel()
            await eventually(lambda: not hidden.addresses)
            await nursery.start(serve, Multiaddr(str(relay).partition("/p2p/")[0]))
            await eventually(lambda: bool(hidden.addresses))
            async with episub_router.open(TOPIC, bootstrap=hidden.addresses) as other:
                await other.joined(PATIENCE)
        nursery.cancel_scope.cancel()


async def test_who_is_no_relay_gives_no_place() -> None:
    async with episub_router.open(TOPIC) as node:
        listen = f"{node.addresses[0]}/p2p-circuit"
        with pytest.raises(OSError, match=r"can't listen on .*/p2p-circuit: "):
            async with episub_router.open(TOPIC, listen=[listen]):
                pass


async def test_a_connection_to_a_relay_that_led_nowhere_is_closed() -> None:
    """Else whoever names relays could have a node keep connections to all of them."""
    nobody = ID.from_pubkey(create_new_key_pair().public_key)
    async with a_relay() as relay:
        router = EpisubRouter(
            router_params=RouterParams(idle_timeout=0.2), bootstrap=[f"{relay}/p2p/{nobody}"]
        )
        async with episub_router.open(TOPIC, router=router) as node:
            network, by = node.pubsub.host.get_network(), relay_of(relay).peer_id
            await eventually(lambda: bool(network.get_connections(by)))
            with pytest.raises(
                NotJoined, match=r"RelayRefused: the relay .* answered NO_RESERVATION"
            ):
                await node.joined(timeout=10)
            await eventually(lambda: not network.get_connections(by))
