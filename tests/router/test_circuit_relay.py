"""An overlay of hosts that nobody can dial, over circuits that the application dialled."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from itertools import pairwise

import pytest
import trio
from libp2p import new_host
from libp2p.abc import IHost
from libp2p.connection_types import ConnectionType
from libp2p.network.exceptions import SwarmException
from libp2p.peer.peerinfo import PeerInfo
from libp2p.relay.circuit_v2.config import RelayConfig, RelayRole
from libp2p.relay.circuit_v2.protocol import PROTOCOL_ID, CircuitV2Protocol
from libp2p.relay.circuit_v2.resources import RelayLimits
from libp2p.relay.circuit_v2.transport import CircuitV2Transport
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

from episub_router import EpisubRouter, ResilientPubsub
from tests.hosts import LOOPBACK, Node, eventually, receive, running_nodes
from tests.router.overlays import TOPIC, router

pytestmark = pytest.mark.hosts

LIMITS = RelayLimits(duration=3600, data=1 << 30, max_circuit_conns=16, max_reservations=16)


class Circuits:
    """A relay, and the places that nodes have reserved there."""

    def __init__(self, relay: IHost) -> None:
        self._relay = relay
        self._transports: dict[Node, CircuitV2Transport] = {}

    async def reserve(self, node: Node, protocol: CircuitV2Protocol, life: trio.Nursery) -> None:
        """From now on others can reach `node` through the relay."""
        transport = self._transports[node] = CircuitV2Transport(
            node.host, protocol, RelayConfig(roles=RelayRole.STOP | RelayRole.CLIENT)
        )
        relay = self._relay.get_id()
        await self._connect(node)
        stream = await node.host.new_stream(relay, [PROTOCOL_ID])
        assert await transport.reserve(stream, relay, life)
        await stream.close()

    async def _connect(self, node: Node) -> None:
        """Connect `node` to the relay; nothing happens if it is."""
        await node.host.connect(PeerInfo(self._relay.get_id(), self._relay.get_transport_addrs()))

    def address(self, node: Node) -> Multiaddr:
        """Where `node` is to be dialled."""
        return Multiaddr(f"{self._relay.get_addrs()[0]}/p2p-circuit/p2p/{node.id}")

    async def dial(self, node: Node, other: Node) -> None:
        """As an application has to: past the swarm."""
        for each in (node, other):
            # A dial that is given up can take the connection to the relay with it.
            await self._connect(each)
        connection = await self._transports[node].dial(self.address(other))
        assert connection.get_connection_type() is ConnectionType.RELAYED


@asynccontextmanager
async def behind_a_relay(count: int) -> AsyncIterator[tuple[list[Node], Circuits]]:
    """Subscribed nodes that listen nowhere, each with a place at one relay."""
    relay = new_host()
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(relay.run([LOOPBACK]))
        hop = CircuitV2Protocol(relay, LIMITS, allow_hop=True)
        await stack.enter_async_context(background_trio_service(hop))
        nodes = await stack.enter_async_context(
            running_nodes(count, router=EpisubRouter, pubsub_class=ResilientPubsub, listen=())
        )
        life = await stack.enter_async_context(trio.open_nursery())
        circuits = Circuits(relay)
        for node in nodes:
            assert not node.host.get_addrs()
            protocol = CircuitV2Protocol(node.host)
            await stack.enter_async_context(background_trio_service(protocol))
            await circuits.reserve(node, protocol, life)
        yield nodes, circuits
        life.cancel_scope.cancel()


def linked(*pairs: tuple[Node, Node]) -> bool:
    """Whether these have each other as neighbours, and nobody else."""
    nodes = list(dict.fromkeys(node for pair in pairs for node in pair))
    links = {(a, b) for a in nodes for b in nodes if b.id in router(a).mesh[TOPIC]}
    return links == {way for a, b in pairs for way in ((a, b), (b, a))}


async def test_an_overlay_over_circuits_alone() -> None:
    """A line of four: what one publishes crosses three circuits."""
    async with behind_a_relay(4) as (nodes, circuits):
        subscriptions = [await node.pubsub.subscribe(TOPIC) for node in nodes]
        for node, other in pairwise(nodes):
            await circuits.dial(node, other)
        await eventually(lambda: linked(*pairwise(nodes)))
        for author in nodes:
            await author.pubsub.publish(TOPIC, author.id.to_bytes())
        for subscription in subscriptions:
            got = {message.data for message in await receive(subscription, len(nodes))}
            assert got == {node.id.to_bytes() for node in nodes}


async def test_a_lost_circuit_is_for_the_application_to_dial_again() -> None:
    """py-libp2p's swarm dials none, so the router can't."""
    async with behind_a_relay(2) as ((node, other), circuits):
        subscription = await other.pubsub.subscribe(TOPIC)
        await node.pubsub.subscribe(TOPIC)
        with pytest.raises(SwarmException, match="relay-only"):
            await node.host.connect(PeerInfo(other.id, [circuits.address(other)]))
        for dialler, listener in ((node, other), (other, node)):
            # The late end of a circuit ends the next one of the same peer in py-libp2p's relay.
            while not linked((node, other)):
                with suppress(SwarmException, ConnectionError), trio.move_on_after(2):
                    await circuits.dial(dialler, listener)
                    await eventually(lambda: linked((node, other)))
            await node.pubsub.publish(TOPIC, dialler.id.to_bytes())
            assert [m.data for m in await receive(subscription)] == [dialler.id.to_bytes()]
            await node.host.disconnect(other.id)
            for each in (node, other):
                await eventually(lambda each=each: not router(each).mesh[TOPIC])  # type: ignore[misc]
