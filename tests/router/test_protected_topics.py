"""In a protected topic two neighbours push each message to a node."""

from __future__ import annotations

import pytest

from episub_router import ResilientPubsub
from tests.hosts import Node, eventually, receive
from tests.router.overlays import TOPIC, overlay_of, router

pytestmark = pytest.mark.hosts


def parents(node: Node) -> int:
    """How many neighbours push to `node` in the tree of the one source."""
    trees = router(node).overlay(TOPIC).trees
    return sum(parent is not None for tree in trees for parent in (tree.parent, tree.second_parent))


@pytest.mark.parametrize("protected", [True, False])
async def test_a_message_comes_from_two_neighbours_and_is_delivered_once(protected: bool) -> None:
    """Four nodes that are all linked. Of the three that don't publish, one may push to both of
    the others, and so have no second parent."""
    topics = [TOPIC] if protected else ["other"]
    async with overlay_of(4, pubsub_class=ResilientPubsub, protected_topics=topics) as (
        nodes,
        subscriptions,
    ):
        source, *others = nodes
        await source.pubsub.publish(TOPIC, b"first")
        least = [1, 2, 2] if protected else [1, 1, 1]
        await eventually(lambda: sorted(map(parents, others)) >= least)
        await source.pubsub.publish(TOPIC, b"second")
        for subscription in subscriptions:
            got = await receive(subscription, 2)
            assert {message.data for message in got} == {b"first", b"second"}
        if not protected:
            assert sorted(map(parents, others)) == least
