"""What reaches peers other than by a mesh: gossip, peer exchange, IDONTWANT."""

from __future__ import annotations

import pytest

from interop.harness.lab import Lab
from interop.harness.links import link, mesh_link
from interop.harness.peer import Peer
from interop.harness.traffic import Traffic, exchange, sizes
from tests.interop.cells import STOCK

TOPIC = "gossip"


# py-libp2p's GossipSub takes every GRAFT, and prunes at random afterwards.
CAN_BE_FULL = STOCK[1:]


async def full_mesh(lab: Lab, kind: str, neighbour: str, *flags: str) -> tuple[Peer, list[Peer]]:
    """A stock peer that has all the peers in its mesh that it takes, and these peers."""
    full = await lab.start(kind, "--mesh=1,2,2", *flags, topics=[TOPIC])
    neighbours = await lab.start_all([neighbour] * 2, TOPIC)
    for peer in neighbours:
        await mesh_link(full, peer, TOPIC)
    return full, neighbours


async def pruned(node: Peer, by: Peer) -> None:
    """Wait until a peer has refused to have `node` in its mesh."""
    await node.until(
        lambda: (
            any(event.get("prune") for event in node.reported("control", peer=by.id))
            and by.id not in node.mesh(TOPIC)
        ),
        f"a PRUNE from {by}",
    )


@pytest.mark.parametrize("kind", STOCK)
async def test_a_peer_outside_the_mesh_asks_for_what_is_announced_to_it(
    lab: Lab, kind: str
) -> None:
    await exchange_by_gossip(lab, kind)


@pytest.mark.parametrize("kind", STOCK[1:3])
async def test_gossip_reaches_peers_with_message_ids_of_their_own(lab: Lab, kind: str) -> None:
    """js and rust have other ids than the specification, unless a flag changes it."""
    await exchange_by_gossip(lab, kind, "--library-ids")


async def exchange_by_gossip(lab: Lab, kind: str, *flags: str) -> None:
    """A stock peer that refuses all grafts, and an Episub node."""
    outside = await lab.start(kind, "--mesh=0,0,0", *flags, topics=[TOPIC])
    episub = await lab.start("episub", topics=[TOPIC])
    # The peer refuses a GRAFT from a peer that dialled it.
    await link(episub, outside, TOPIC)
    await pruned(episub, outside)
    await outside.until(lambda: not outside.mesh(TOPIC), "nobody in its mesh")
    await exchange(TOPIC, [episub, outside], [0, 1, 1024, 64 * 1024, 900 * 1024])
    asked = sum(event.get("iwant", 0) for event in episub.reported("control", peer=outside.id))
    assert asked >= 5


@pytest.mark.parametrize("kind", CAN_BE_FULL)
async def test_an_episub_node_outside_a_stock_mesh_asks_likewise(lab: Lab, kind: str) -> None:
    """The stock peer has no room, so the node hears of a third peer's messages by IHAVE."""
    full, neighbours = await full_mesh(lab, kind, "py")
    episub = await lab.start("episub", topics=[TOPIC])
    await link(episub, full, TOPIC)
    await pruned(episub, full)
    traffic = Traffic(TOPIC)
    for author in (neighbours[0], episub):
        receivers = [full, episub, *neighbours]
        await traffic.publish(author, receivers, [0, 1, 1024, 64 * 1024])
    traffic.check()
    announced = sum(event.get("ihave", 0) for event in episub.reported("control", peer=full.id))
    assert announced >= 4


@pytest.mark.peers("js")
@pytest.mark.parametrize("kind", CAN_BE_FULL)
async def test_a_prune_with_peer_exchange_is_used(lab: Lab, kind: str) -> None:
    """A full stock peer prunes the node and names others; the node goes on to get everything."""
    full, neighbours = await full_mesh(lab, kind, "js", "--px")
    episub = await lab.start("episub", topics=[TOPIC])
    await link(episub, full, TOPIC)
    await episub.until(
        lambda: any(event.get("px") for event in episub.reported("control", peer=full.id)),
        "a PRUNE with peers",
    )
    if kind != "rust":  # it names peers without their signed records
        for peer in neighbours:
            await episub.event("connected", peer=peer.id)
    everybody = [full, episub, *neighbours]
    await exchange(TOPIC, everybody, sizes(20))


@pytest.mark.peers("js", "rust")
@pytest.mark.parametrize("kind", STOCK)
async def test_idontwant_comes_for_large_messages_and_harms_none(lab: Lab, kind: str) -> None:
    """A triangle: each message comes by two ways, and a receiver can say so."""
    a = await lab.start(kind, topics=[TOPIC])
    b = await lab.start("js" if kind == "rust" else "rust", topics=[TOPIC])
    episub = await lab.start("episub", "--protocol=/meshsub/1.2.0", topics=[TOPIC])
    for dialler, listener in ((a, b), (b, episub), (episub, a)):
        await mesh_link(dialler, listener, TOPIC)
    traffic = Traffic(TOPIC)
    for author in (a, b, episub):
        await traffic.publish(author, [a, b, episub], [64 * 1024] * 10)
    traffic.check()
    for stock in (a, b):
        unwanted = [e.get("idontwant", 0) for e in episub.reported("control", peer=stock.id)]
        assert sum(unwanted) > 0, stock
