"""A peer is killed and back before its loss was looked at.

The stock class finds it connected then, and keeps the stream over the connection that closed: the
peer gets no subscriptions and no messages until something is written to it.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio
from libp2p.pubsub.pubsub_notifee import PubsubNotifee

from episub_router import EpisubRouter, ResilientPubsub
from tests.hosts import PATIENCE, connect, eventually, running_nodes
from tests.router.overlays import crash

pytestmark = pytest.mark.hosts

TOPIC = "news"


async def test_it_gets_a_stream_of_its_new_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    one = {"router": EpisubRouter, "pubsub_class": ResilientPubsub}
    async with running_nodes(1, **one) as [node]:  # type: ignore[arg-type]
        network: Any = node.host.get_network()
        [notifee] = [n for n in network.notifees if isinstance(n, PubsubNotifee)]
        notify, back = notifee.disconnected, trio.Event()

        async def notify_late(network: Any, connection: Any) -> None:
            await back.wait()
            await notify(network, connection)

        monkeypatch.setattr(notifee, "disconnected", notify_late)
        await node.pubsub.subscribe(TOPIC)
        async with running_nodes(1, **one, seed=1) as [peer]:  # type: ignore[arg-type]
            await connect(peer, node)
            old = node.pubsub.peers[peer.id]
            await crash(peer)
        await eventually(lambda: not network.get_connections(peer.id))
        async with running_nodes(1, **one, seed=1) as [again]:  # type: ignore[arg-type]
            assert again.id == peer.id
            await again.host.connect(node.info)
            await eventually(lambda: bool(network.get_connections(peer.id)))
            back.set()
            await again.pubsub.wait_for_subscription(node.id, TOPIC, timeout=PATIENCE)
            assert node.pubsub.peers[peer.id] is not old
