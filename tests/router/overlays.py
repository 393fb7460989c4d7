"""Overlays of real hosts, and the readings that tests take of them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import trio
from libp2p.abc import ISubscriptionAPI
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from episub_router import EpisubParams, EpisubRouter, MembershipParams, RouterParams
from episub_router.net.connections.kernel import socket_below
from episub_router.net.node import NodeParts
from episub_router.net.peers import PeerTable, RemotePeer
from episub_router.protocol.messages import Message
from episub_router.wire import Frame, encode_frame
from tests.hosts import PATIENCE, Node, connect_all, eventually, running_nodes

TOPIC = "news"


def router(node: Node) -> EpisubRouter:
    assert isinstance(node.router, EpisubRouter)
    return node.router


def parts(node: Node) -> NodeParts:
    """What the router of `node` is made of."""
    found = router(node)._node
    assert found is not None
    return found


def peers_of(node: Node) -> PeerTable:
    """The records that `node` has of others."""
    return parts(node).peers


def record(node: Node, other: Node) -> RemotePeer:
    """What `node` knows of `other`."""
    return peers_of(node)[other.id.to_bytes()]


def count(nodes: Node | Iterable[Node], reason: Any) -> int:
    """A counter of one node, or summed over several."""
    every = [nodes] if isinstance(nodes, Node) else nodes
    return sum(parts(node).counters[reason] for node in every)


def neighbors(node: Node, topic: str = TOPIC) -> int:
    return len(router(node).mesh.get(topic, ()))


def is_joined(
    nodes: Sequence[Node], topic: str = TOPIC, least: int = MembershipParams().random_links
) -> bool:
    """Whether all nodes have `least` links, and every link has two ends."""
    enough = min(len(nodes) - 1, least)
    ids = {node.id: router(node).mesh.get(topic, set()) for node in nodes}
    return all(len(links) >= enough for links in ids.values()) and all(
        me in ids.get(other, ()) for me, links in ids.items() for other in links
    )


async def joined(nodes: Sequence[Node]) -> None:
    """Wait until `is_joined`, which a busy machine may take a while for."""
    with trio.fail_after(PATIENCE):
        while not is_joined(nodes):  # noqa: ASYNC110 (no one event stands for it)
            await trio.sleep(0.02)


@asynccontextmanager
async def overlay_of(
    size: int,
    *,
    params: EpisubParams | None = None,
    router_params: RouterParams | None = None,
    pubsub_class: type[Pubsub] = Pubsub,
    pubsub_options: dict[str, Any] | None = None,
    **router_options: Any,
) -> AsyncIterator[tuple[list[Node], list[ISubscriptionAPI]]]:
    """`size` nodes that have joined one topic through the first of them."""
    async with running_nodes(
        size,
        router=lambda: EpisubRouter(params, router_params=router_params, seed=1, **router_options),
        pubsub_class=pubsub_class,
        pubsub_options=pubsub_options,
    ) as nodes:
        subscriptions = []
        # A few at a time: a link costs 20 ms of CPU, and all nodes share one core.
        for start in range(0, size, 5):
            group = nodes[start : start + 5]
            await connect_all([(node, nodes[0]) for node in group if node is not nodes[0]])
            subscriptions += [await node.pubsub.subscribe(TOPIC) for node in group]
            await joined(nodes[: start + 5])
        yield nodes, subscriptions


async def crash(node: Node) -> None:
    """Kill `node`, and close its sockets as the operating system would."""
    connections = node.host.get_network().get_connections()
    sockets = [socket_below(connection.muxed_conn) for connection in connections]
    await node.kill()
    for socket in sockets:
        assert socket is not None
        socket.close()


class Readers:
    """What each subscription has received, in order of arrival."""

    def __init__(self, subscriptions: Iterable[ISubscriptionAPI], nursery: trio.Nursery) -> None:
        self.received: list[list[bytes]] = []
        for subscription in subscriptions:
            self.received.append([])
            nursery.start_soon(self._read, subscription, self.received[-1])

    @staticmethod
    async def _read(subscription: ISubscriptionAPI, into: list[bytes]) -> None:
        while True:
            into.append((await subscription.get()).data)

    async def each_has(self, size: int) -> None:
        """Wait until every one has `size` messages."""
        await eventually(lambda: all(len(got) >= size for got in self.received))

    async def all_have(self, expected: Sequence[bytes]) -> None:
        """Wait until every one has as many messages as expected, then compare: each once."""
        await self.each_has(len(expected))
        for got in self.received:
            assert sorted(got) == sorted(expected)


@asynccontextmanager
async def reading(subscriptions: Iterable[ISubscriptionAPI]) -> AsyncIterator[Readers]:
    async with trio.open_nursery() as nursery:
        yield Readers(subscriptions, nursery)
        nursery.cancel_scope.cancel()


def push_frame(
    sender: Node, receiver: Node, *messages: Message, topic: str = TOPIC, seq: int | None = None
) -> rpc_pb2.RPC:
    """Send a handmade frame, as no honest router would; its RPC."""
    if seq is None:
        seq = record(sender, receiver).next_sequence_id()
    rpc = encode_frame(Frame(topic, seq, messages), lambda peer: None)
    push(sender, receiver, rpc)
    return rpc


def push(sender: Node, receiver: Node, rpc: rpc_pb2.RPC) -> None:
    assert sender.pubsub.peer_queues[receiver.id].push(rpc)
