"""Prometheus metrics of a node, and what happens in a topic as events."""

import trio
from pair import pair
from prometheus_client import CollectorRegistry, generate_latest

from episub_router import EpisubRouter, NeighborDown, NodeCollector


async def main() -> None:
    async with pair("news") as (one, two):
        router, registry = one.router, CollectorRegistry()
        assert isinstance(router, EpisubRouter)
        registry.register(NodeCollector(one, router))
        # In an application: prometheus_client.start_http_server(9464, registry=registry)
        events = router.events("news")
        await one.publish("news", b"hello")
        await (await two.subscribe("news")).get()
        for line in generate_latest(registry).decode().splitlines():
            if line.startswith(("gossipsub_mesh_peers", "gossipsub_message_published_total")):
                print(line)
        await two.unsubscribe("news")
        async for event in events:
            if isinstance(event, NeighborDown):
                print("neighbours left:", event.neighbors)
                break


trio.run(main)
