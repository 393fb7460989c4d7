"""With rings, real hosts find the peers next to them by their peer ids."""

from __future__ import annotations

import pytest

from episub_router import EpisubParams, MembershipParams, ResilientPubsub
from episub_router.protocol.hyparview import Places
from tests.hosts import eventually, receive
from tests.router.overlays import TOPIC, overlay_of, router

pytestmark = pytest.mark.hosts

MEMBERSHIP = MembershipParams(active_size=5, near_links=0, rings=2)


async def test_each_host_is_linked_with_those_next_to_it() -> None:
    """Ten hosts with room for half of the others; all join through the first."""
    async with overlay_of(
        10,
        params=EpisubParams(membership=MEMBERSHIP),
        pubsub_class=ResilientPubsub,
    ) as (nodes, subscriptions):
        ids = [node.id.to_bytes() for node in nodes]
        places = Places(TOPIC, 2)

        def all_in_place() -> bool:
            return all(
                set(places.next_to(node.id.to_bytes(), ids))
                <= {peer.to_bytes() for peer in router(node).mesh.get(TOPIC, ())}
                for node in nodes
            )

        await eventually(all_in_place)
        await nodes[0].pubsub.publish(TOPIC, b"hello")
        for subscription in subscriptions:
            (message,) = await receive(subscription, 1)
            assert message.data == b"hello"
