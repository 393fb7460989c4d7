"""Networks of Episub nodes and of py-libp2p's own GossipSub and FloodSub hosts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from libp2p.abc import IPubsubRouter, ISubscriptionAPI
from libp2p.custom_types import TProtocol
from libp2p.pubsub import floodsub
from libp2p.pubsub.floodsub import FloodSub
from libp2p.pubsub.gossipsub import (
    PROTOCOL_ID,
    PROTOCOL_ID_V11,
    PROTOCOL_ID_V12,
    PROTOCOL_ID_V13,
)
from libp2p.pubsub.pubsub import Pubsub

from episub_router import EpisubRouter, ResilientPubsub
from tests.hosts import PATIENCE, Node, connect_all, eventually, running_nodes
from tests.hosts import bounded_gossipsub as gossipsub

TOPIC = "news"
MESHSUB = (PROTOCOL_ID_V13, PROTOCOL_ID_V12, PROTOCOL_ID_V11, PROTOCOL_ID)
FLOODSUB = floodsub.PROTOCOL_ID


def episub(**options: Any) -> EpisubRouter:
    return EpisubRouter(seed=1, **options)


def stock(protocol: TProtocol) -> IPubsubRouter:
    """The stock router that speaks `protocol`."""
    return FloodSub([protocol]) if protocol == FLOODSUB else gossipsub(protocol)


@asynccontextmanager
async def network(
    routers: Sequence[Callable[[], IPubsubRouter]],
    links: Iterable[tuple[int, int]],
    *,
    pubsub_class: type[Pubsub] = ResilientPubsub,
    pubsub_options: dict[str, Any] | None = None,
) -> AsyncIterator[list[Node]]:
    """One node for each of `routers`, connected along `links` (dialler, listener)."""
    async with AsyncExitStack() as stack:
        nodes = []
        for number, router in enumerate(routers):
            nodes += await stack.enter_async_context(
                running_nodes(
                    1,
                    router=router,
                    pubsub_class=pubsub_class,
                    pubsub_options=pubsub_options,
                    seed=number,
                )
            )
        await connect_all([(nodes[a], nodes[b]) for a, b in links])
        yield nodes


async def subscribe(nodes: Iterable[Node], topic: str = TOPIC) -> list[ISubscriptionAPI]:
    """Subscribe `nodes` and wait until each connected pair of them is linked in the topic."""
    nodes = list(nodes)
    subscriptions = [await node.pubsub.subscribe(topic) for node in nodes]
    for node in nodes:
        for other in nodes:
            if other.id in node.pubsub.peers:
                await linked(node, other, topic)
    return subscriptions


async def linked(node: Node, other: Node, topic: str = TOPIC) -> None:
    """Wait until what `node` publishes in `topic` goes to `other`."""
    await node.pubsub.wait_for_subscription(other.id, topic, timeout=PATIENCE)
    if node.router.peer_protocol[other.id] != FLOODSUB:
        await eventually(lambda: other.id in node.router.mesh.get(topic, ()))
