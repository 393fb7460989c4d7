"""Two connected hosts in one process, for the other examples."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from libp2p import new_host
from libp2p.peer.peerinfo import PeerInfo
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

from episub_router import EpisubRouter, ResilientPubsub


@asynccontextmanager
async def pair(
    topic: str, make_router: Callable[[], EpisubRouter] = EpisubRouter, **options: Any
) -> AsyncIterator[tuple[ResilientPubsub, ResilientPubsub]]:
    """Two pubsubs in `topic`, neighbours of each other; `options` are those of ResilientPubsub."""
    pubsubs, routers = [], []
    async with AsyncExitStack() as stack:
        for _ in range(2):
            host, router = new_host(), make_router()
            pubsub = ResilientPubsub(host, router, **options)
            await stack.enter_async_context(host.run([Multiaddr("/ip4/127.0.0.1/tcp/0")]))
            await stack.enter_async_context(background_trio_service(pubsub))
            await stack.enter_async_context(background_trio_service(router))
            await pubsub.subscribe(topic)
            pubsubs.append(pubsub)
            routers.append(router)
        first, second = (pubsub.host for pubsub in pubsubs)
        await first.connect(PeerInfo(second.get_id(), second.get_transport_addrs()))
        for router in routers:
            await router.joined(topic)
        yield pubsubs[0], pubsubs[1]
