"""Peers that py-libp2p's mDNS found are contacts of every topic (E02)."""

from __future__ import annotations

import pytest
from libp2p.discovery.events.peerDiscovery import peerDiscovery
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo

from episub_router import EpisubRouter, MdnsDiscovery
from tests.hosts import running_nodes
from tests.router.overlays import TOPIC, joined


@pytest.mark.hosts
async def test_two_hosts_of_one_network_meet() -> None:
    source = MdnsDiscovery()
    try:
        async with (
            running_nodes(1, router=EpisubRouter) as [other],
            running_nodes(1, router=lambda: EpisubRouter(discovery=[source]), seed=1) as [node],
        ):
            await other.pubsub.subscribe(TOPIC)
            peerDiscovery.emit_peer_discovered(other.info)  # as the listener does
            await node.pubsub.subscribe(TOPIC)
            await joined([node, other])
    finally:
        source.close()


async def test_the_latest_are_kept() -> None:
    source = MdnsDiscovery()
    for number in range(100):
        peerDiscovery.emit_peer_discovered(PeerInfo(ID(b"%d" % number), []))
    source.close()
    peerDiscovery.emit_peer_discovered(PeerInfo(ID(b"after"), []))
    found = [info.peer_id for info in await source.find(TOPIC)]
    assert found == [ID(b"%d" % number) for number in range(36, 100)]
