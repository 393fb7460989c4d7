"""Hosts that know nothing but a DHT node find each other's overlay (E02)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

import pytest
from libp2p import new_host
from libp2p.abc import IHost
from libp2p.kad_dht.kad_dht import DHTMode, KadDHT
from libp2p.peer.peerinfo import PeerInfo
from libp2p.tools.anyio_service import background_trio_service

from episub_router import DhtDiscovery
from episub_router.net.counters import Ordinary, Reason
from episub_router.net.discovery.dht import topic_key
from tests.hosts import LOOPBACK, Node, eventually, running_nodes
from tests.router.late_discovery import LateRouter
from tests.router.overlays import TOPIC, count, joined, reading

pytestmark = pytest.mark.hosts


@asynccontextmanager
async def dht_node() -> AsyncIterator[KadDHT]:
    """A node of the DHT and of nothing else."""
    host = new_host()
    dht = KadDHT(host, DHTMode.SERVER)
    async with host.run([LOOPBACK]), background_trio_service(dht):
        yield dht


class DhtRouter(LateRouter):
    """A router that makes its DHT client when it gets its host."""

    def __init__(self) -> None:
        super().__init__(self._client)

    def _client(self, host: IHost) -> DhtDiscovery:
        self.dht = KadDHT(host, DHTMode.CLIENT)
        return DhtDiscovery(self.dht)


def dht(node: Node) -> KadDHT:
    assert isinstance(node.router, DhtRouter)
    return node.router.dht


async def introduce(nodes: Iterable[Node], server: KadDHT) -> None:
    """Let `nodes` know the DHT node, and nobody else."""
    info = PeerInfo(server.host.get_id(), server.host.get_transport_addrs())
    for node in nodes:
        await node.host.connect(info)


async def test_six_hosts_that_know_only_a_dht_node_deliver_to_each_other() -> None:
    async with dht_node() as server, running_nodes(6, router=DhtRouter) as nodes:
        await introduce(nodes, server)
        subscriptions = [await node.pubsub.subscribe(TOPIC) for node in nodes]
        await joined(nodes)
        async with reading(subscriptions) as readers:
            for node in (nodes[0], nodes[5]):
                await node.pubsub.publish(TOPIC, node.id.to_bytes())
            await readers.all_have([nodes[0].id.to_bytes(), nodes[5].id.to_bytes()])
        # They meet in the DHT's look-ups too, whose nodes name all their clients; so wait for the
        # records as well.
        everybody = {node.id for node in nodes}
        store = server.provider_store
        await eventually(lambda: all(count(n, Ordinary.CONTACTS_FOUND) for n in nodes), patience=60)
        await eventually(
            lambda: everybody == {info.peer_id for info in store.get_providers(topic_key(TOPIC))},
            patience=60,
        )


async def test_each_look_up_asks_the_dht_afresh() -> None:
    """py-libp2p's own answers from its local store once that has an entry."""
    async with dht_node() as server, running_nodes(3, router=DhtRouter) as nodes:
        await introduce(nodes, server)
        discoveries = [DhtDiscovery(dht(node)) for node in nodes]
        for known, discovery in enumerate(discoveries):
            assert len(await discoveries[0].find("afresh")) == known
            await discovery.provide("afresh")
        assert {info.peer_id for info in await discoveries[0].find("afresh")} == {
            node.id for node in nodes
        }


async def test_who_leaves_provides_no_longer() -> None:
    async with dht_node() as server, running_nodes(1, router=DhtRouter) as [node]:
        await introduce([node], server)
        key = topic_key(TOPIC)
        await node.pubsub.subscribe(TOPIC)
        await eventually(lambda: bool(server.provider_store.get_providers(key)))
        await node.pubsub.unsubscribe(TOPIC)
        await eventually(lambda: key not in dht(node).provider_store.providing_keys)
        assert dht(node).provider_store.get_providers(key) == []


async def test_without_a_dht_node_discovery_fails_and_is_counted() -> None:
    async with running_nodes(1, router=DhtRouter) as [node]:
        await node.pubsub.subscribe(TOPIC)
        await eventually(lambda: count(node, Reason.DISCOVERY_FAILED) > 0)
        with pytest.raises(ConnectionError, match="'news'"):
            await DhtDiscovery(dht(node)).provide(TOPIC)
