"""Nodes of a topic that find each other through the Kademlia DHT."""

from contextlib import AsyncExitStack

import trio
from libp2p import new_host
from libp2p.kad_dht.kad_dht import DHTMode, KadDHT
from libp2p.peer.peerinfo import PeerInfo
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

from episub_router import DhtDiscovery, EpisubRouter, ResilientPubsub

HERE = Multiaddr("/ip4/127.0.0.1/tcp/0")


async def main() -> None:
    async with AsyncExitStack() as stack:
        # A DHT server that knows nothing of the topic.
        meeting_point = new_host()
        await stack.enter_async_context(meeting_point.run([HERE]))
        server = KadDHT(meeting_point, DHTMode.SERVER)
        await stack.enter_async_context(background_trio_service(server))
        routers = []
        for _ in range(2):
            host = new_host()
            dht = KadDHT(host, DHTMode.SERVER)
            router = EpisubRouter(discovery=[DhtDiscovery(dht)])
            pubsub = ResilientPubsub(host, router)
            await stack.enter_async_context(host.run([HERE]))
            for service in (dht, pubsub, router):
                await stack.enter_async_context(background_trio_service(service))
            await host.connect(
                PeerInfo(meeting_point.get_id(), meeting_point.get_transport_addrs())
            )
            await pubsub.subscribe("news")
            routers.append(router)
        for router in routers:
            await router.joined("news", timeout=60)
        print("neighbours of each:", [len(router.mesh["news"]) for router in routers])


trio.run(main)
