"""Real hosts with artificial distance: three sites, near inside and far across.

A connection's bytes are held back by the host that dialled, in both directions, so that a round
trip takes as long as it should. Sockets, handshakes and protocols are real. Run it in virtual time
(a `MockClock` that jumps): what the hosts' CPU takes doesn't add to the distances then.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from math import inf
from typing import Any

import pytest
import trio
from libp2p.abc import IPubsubRouter, ISubscriptionAPI
from libp2p.network.swarm import Swarm
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.transport.tcp.tcp import TCP
from multiaddr import Multiaddr

from episub_router import EpisubParams, EpisubRouter
from episub_router.net.connections import ping
from episub_router.protocol.messages import LinkKind
from tests.hosts import Node, connect, running_nodes
from tests.router.overlays import TOPIC, is_joined, router

SITES = 3
INSIDE, ACROSS = 0.005, 0.080
"""Round trips in seconds."""


class DelayedStream:
    """A `trio.SocketStream` whose bytes take `delay` seconds longer, in order, each way."""

    def __init__(self, stream: trio.SocketStream, delay: float, nursery: trio.Nursery) -> None:
        self.socket = stream.socket
        self._stream = stream
        self._delay = delay
        self._out, outbound = trio.open_memory_channel[tuple[float, bytes]](inf)
        inbound, self._in = trio.open_memory_channel[tuple[float, bytes]](inf)
        self._rest = b""
        nursery.start_soon(self._send, outbound)
        nursery.start_soon(self._receive, inbound)

    async def send_all(self, data: bytes) -> None:
        await self._out.send((trio.current_time() + self._delay, bytes(data)))

    async def receive_some(self, most: int | None = None) -> bytes:
        if not self._rest:
            try:
                due, self._rest = await self._in.receive()
            except trio.EndOfChannel:
                return b""
            await trio.sleep_until(due)
        most = most or len(self._rest)
        data, self._rest = self._rest[:most], self._rest[most:]
        return data

    async def aclose(self) -> None:
        await self._out.aclose()
        await self._stream.aclose()

    async def _send(self, queue: trio.MemoryReceiveChannel[tuple[float, bytes]]) -> None:
        try:
            async for due, data in queue:
                await trio.sleep_until(due)
                await self._stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            queue.close()

    async def _receive(self, queue: trio.MemorySendChannel[tuple[float, bytes]]) -> None:
        async with queue:
            try:
                while data := await self._stream.receive_some():
                    await queue.send((trio.current_time() + self._delay, data))
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return


class Sites:
    """Hosts 0, 3, 6, ... are in the first site, 1, 4, 7, ... in the second, and so on."""

    def __init__(self, nodes: Sequence[Node], nursery: trio.Nursery) -> None:
        self.nodes = nodes
        self._nursery = nursery
        self._site = {node.id: index % SITES for index, node in enumerate(nodes)}
        self._site_of_port = {_port(node.info.addrs[0]): self._site[node.id] for node in nodes}
        self.copies = 0
        """Payload copies that hosts got from others."""
        self.crossings = 0
        """Those of them that came from another site."""
        for node in nodes:
            self._hold_back(node)
            self._count_copies(node)

    def _hold_back(self, node: Node) -> None:
        network = node.host.get_network()
        assert isinstance(network, Swarm)
        [tcp] = [t for t in network.transport_manager.get_transports() if isinstance(t, TCP)]
        dial, here = tcp.dial, self._site[node.id]

        async def dial_afar(address: Multiaddr) -> Any:
            trip = INSIDE if self._site_of_port[_port(address)] == here else ACROSS
            await trio.sleep(trip)
            raw: Any = await dial(address)
            raw.stream.stream = DelayedStream(raw.stream.stream, trip / 2, self._nursery)
            return raw

        tcp.dial = dial_afar  # type: ignore[method-assign]

    def _count_copies(self, node: Node) -> None:
        here, push = self._site[node.id], node.pubsub.push_msg

        async def counted(forwarder: ID, message: rpc_pb2.Message) -> None:
            if forwarder != node.id:
                self.copies += 1
                self.crossings += self._site[forwarder] != here
            await push(forwarder, message)

        node.pubsub.push_msg = counted  # type: ignore[method-assign]

    def near_inside(self, near_links: int) -> float:
        """Share of the hosts' `near_links` nearest neighbours, by RTT (E18), inside their sites.

        A slot that is empty, or whose link was not measured yet, counts as one outside.
        """
        inside = 0
        for node in self.nodes:
            active = router(node).overlay(TOPIC).active
            measured = [neighbor for neighbor in active if neighbor.rtt is not None]
            nearest = sorted(measured, key=lambda neighbor: neighbor.rtt or 0.0)[:near_links]
            inside += sum(self._site[neighbor.peer] == self._site[node.id] for neighbor in nearest)
        return inside / (near_links * len(self.nodes))

    def kept_for_nearness(self) -> float:
        """Share of the links of the kind NEAR, counted at both ends, that are inside a site."""
        sides = [
            self._site[neighbor.peer] == self._site[node.id]
            for node in self.nodes
            for neighbor in router(node).overlay(TOPIC).active
            if neighbor.kind is LinkKind.NEAR
        ]
        return sum(sides) / max(1, len(sides))


def _port(address: Multiaddr) -> int:
    return int(address.value_for_protocol("tcp"))


async def in_time(condition: Callable[[], bool], patience: float) -> None:
    """Wait for a state, looking rarely: each look costs virtual time a jump, which is real time."""
    with trio.fail_after(patience):
        while not condition():  # noqa: ASYNC110 (there is no event to wait for)
            await trio.sleep(1)


@asynccontextmanager
async def sites_of(
    size: int, params: EpisubParams
) -> AsyncIterator[tuple[Sites, list[ISubscriptionAPI]]]:
    """`SITES` sites with `size` hosts each, joined through the first one after the other."""
    links = [(index, 0) for index in range(1, SITES * size)]
    async with linked_sites(size, lambda: EpisubRouter(params, seed=1), links) as joined:
        # Where all others are full, one may be left without near links.
        least = params.membership.random_links
        await in_time(lambda: is_joined(joined[0].nodes, least=least), 300)
        yield joined


@asynccontextmanager
async def linked_sites(
    size: int, router: Callable[[], IPubsubRouter], links: Iterable[tuple[int, int]]
) -> AsyncIterator[tuple[Sites, list[ISubscriptionAPI]]]:
    """`SITES` sites with `size` hosts each, which subscribe one after the other; of each of `links`
    the first host dials the second."""
    dialled: dict[int, list[int]] = {}
    for dialler, listener in links:
        dialled.setdefault(dialler, []).append(listener)
    with pytest.MonkeyPatch.context() as patch:
        # The kernel's round trips have no part of the distances.
        patch.setattr(ping, "shortest_rtt", lambda host, peer: None)
        async with _linked(size, router, dialled) as joined:
            yield joined


@asynccontextmanager
async def _linked(
    size: int, router: Callable[[], IPubsubRouter], dialled: dict[int, list[int]]
) -> AsyncIterator[tuple[Sites, list[ISubscriptionAPI]]]:
    async with (
        trio.open_nursery() as nursery,
        running_nodes(SITES * size, router=router) as nodes,
    ):
        sites = Sites(nodes, nursery)
        subscriptions = []
        for index, node in enumerate(nodes):
            for listener in dialled.get(index, ()):
                await connect(node, nodes[listener])
            subscriptions.append(await node.pubsub.subscribe(TOPIC))
        yield sites, subscriptions
        nursery.cancel_scope.cancel()
