"""A ban between real hosts: connections of either side are closed while it lasts."""

from __future__ import annotations

import pytest

from episub_router import EpisubRouter, ResilientPubsub
from episub_router.net.counters import Ordinary
from tests.hosts import Node, connect, eventually, running_nodes
from tests.router.overlays import TOPIC, count, parts, record, router


def is_connected(one: Node, two: Node) -> bool:
    return bool(one.host.get_network().get_connections(two.id)) and bool(
        two.host.get_network().get_connections(one.id)
    )


async def ban(node: Node, other: Node) -> None:
    """Wait until `other` is a neighbour of `node`, and ban it."""
    await eventually(lambda: other.id in router(node).mesh.get(TOPIC, ()))
    router(node).set_standing(other.id, -100.0)


def end_ban(node: Node, other: Node) -> None:
    """As if the time of the ban had passed."""
    record(node, other).banned_until = record(node, other).dial_not_before = 0.0
    machine = parts(node).topics.machine(TOPIC)
    assert machine is not None
    machine.membership._overlay.banned_until.clear()


@pytest.mark.hosts
async def test_a_banned_peer_is_not_connected_while_the_ban_lasts() -> None:
    """It opened the connection, opens others, and is welcome again afterwards."""
    async with running_nodes(2, router=EpisubRouter, pubsub_class=ResilientPubsub) as (one, two):
        await connect(two, one)
        for node in (one, two):
            await node.pubsub.subscribe(TOPIC)
        await ban(one, two)
        # Which of them is seen first, chance decides; and both may have opened a connection.
        await eventually(lambda: count(one, Ordinary.CONNECTIONS_CLOSED) >= 1)
        await eventually(lambda: not is_connected(one, two))
        closed = count(one, Ordinary.CONNECTIONS_CLOSED)
        router(one).set_standing(two.id, 0.0)
        for times in (1, 2):
            await eventually(lambda: not two.host.get_network().get_connections(one.id))
            await two.host.connect(one.info)
            await eventually(
                lambda: count(one, Ordinary.CONNECTIONS_CLOSED) >= closed + times  # noqa: B023
            )
        assert two.id not in router(one).mesh.get(TOPIC, ())
        await eventually(lambda: not two.host.get_network().get_connections(one.id))
        end_ban(one, two)
        await connect(two, one)
        await eventually(lambda: two.id in router(one).mesh.get(TOPIC, ()))
        assert is_connected(one, two)


@pytest.mark.hosts
async def test_what_the_application_protects_stays_connected() -> None:
    """The link ends all the same."""
    async with running_nodes(3, router=EpisubRouter, pubsub_class=ResilientPubsub) as nodes:
        one, two, three = nodes
        for other in (two, three):
            await connect(other, one)
        for node in nodes:
            await node.pubsub.subscribe(TOPIC)
        one.host.get_network().protect(two.id, "the application's")
        await ban(one, two)
        await ban(one, three)
        await eventually(lambda: not is_connected(one, three))
        assert router(one).mesh.get(TOPIC, set()) == set()
        assert is_connected(one, two)
