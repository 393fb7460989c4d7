"""Hosts that know nothing but a rendezvous point find each other's overlay (E02)."""

from __future__ import annotations

import pytest
from libp2p import new_host
from libp2p.discovery.rendezvous.client import RendezvousClient
from libp2p.discovery.rendezvous.service import RendezvousService
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo

from episub_router.net.discovery.rendezvous_point import RendezvousPointDiscovery, namespace
from tests.hosts import LOOPBACK, eventually, receive, running_nodes
from tests.router.late_discovery import LateRouter
from tests.router.overlays import TOPIC, joined

pytestmark = pytest.mark.hosts


async def test_three_hosts_that_know_only_a_rendezvous_point() -> None:
    server = new_host()
    point = RendezvousService(server)

    def router() -> LateRouter:
        return LateRouter(
            lambda host: RendezvousPointDiscovery(RendezvousClient(host, server.get_id()))
        )

    def registered() -> set[ID]:
        return set(point.registrations.get(namespace(TOPIC), {}))

    async with server.run([LOOPBACK]), running_nodes(3, router=router) as nodes:
        info = PeerInfo(server.get_id(), server.get_transport_addrs())
        for node in nodes:
            await node.host.connect(info)
        subscriptions = []
        for count, node in enumerate(nodes, 1):
            subscriptions.append(await node.pubsub.subscribe(TOPIC))
            await eventually(lambda count=count: len(registered()) == count)  # type: ignore[misc]
        await joined(nodes)
        await nodes[0].pubsub.publish(TOPIC, b"hello")
        for subscription in subscriptions:
            assert [m.data for m in await receive(subscription)] == [b"hello"]
        await nodes[0].pubsub.unsubscribe(TOPIC)
        await eventually(lambda: nodes[0].id not in registered())
