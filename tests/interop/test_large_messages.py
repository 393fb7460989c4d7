"""Large messages between the two implementations: in pieces, and whole where a peer takes none."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
import trio

from interop.harness.lab import Lab
from interop.harness.peer import Event, Peer
from interop.harness.traffic import KIB, Traffic

TOPIC = "large"
IN_PIECES = f"--piece-threshold={32 * KIB}"
BEYOND_AN_RPC, MEGABYTE = 1_500_000, 1_000_000
"""The former comes in pieces or not at all, so after it everybody takes pieces."""


async def start(lab: Lab, kind: str, *flags: str) -> Peer:
    return await lab.start(kind, *flags, topics=[TOPIC])


async def join(node: Peer, *others: Peer) -> None:
    """Neighbours on both sides."""
    for other in others:
        await node.dial(other)
        await node.meshed(other, TOPIC)
        await other.meshed(node, TOPIC)


async def counts(node: Peer) -> Event:
    """Control messages that came and went so far, and what was refused."""
    before = node.count("counts")
    await node.send("counts")
    return await node.event("counts", count=before + 1)


def whole_copies(nodes: Iterable[Peer]) -> int:
    """Large messages that came in one RPC; Python nodes also report those that came in pieces."""
    found = 0
    for node in nodes:
        found += sum(event["size"] >= 32 * KIB for event in node.reported("copy"))
        if node.kind == "episub":
            found -= sum(event["size"] >= 32 * KIB for event in node.reported("delivery"))
    return found


@pytest.mark.peers("episub-go")
async def test_a_go_node_relays_pieces_between_python_nodes(lab: Lab) -> None:
    """And takes and gives its own. Nobody can dial the Python nodes, so that they have no link."""
    go = await start(lab, "episub-go", IN_PIECES)
    pythons = [await start(lab, "episub", IN_PIECES, "--no-listen") for _ in range(2)]
    async with trio.open_nursery() as nursery:
        for python in pythons:
            nursery.start_soon(join, python, go)
    nodes = [pythons[0], go, pythons[1]]
    traffic = Traffic(TOPIC)
    for author in nodes:
        await traffic.publish(author, nodes, [BEYOND_AN_RPC])
        await traffic.publish(author, nodes, [MEGABYTE, 100])
    traffic.check()
    assert not pythons[0].reported("connected", peer=pythons[1].id)
    assert whole_copies(nodes) == 0
    counted = await counts(go)
    # 24 pieces and 16 of each author, to and from each neighbour once.
    came, went = counted["in"]["piece"], counted["out"]["piece"]
    assert came >= 2 * (24 + 16)
    assert went >= 4 * (24 + 16)
    # A piece may come late, or from a parent that was left: that is up to the machine.
    reasons = {event["reason"] for event in go.reported("refused")}
    assert reasons <= {"piece-late", "unsolicited"}


@pytest.mark.peers("episub-go", "leaf")
async def test_peers_without_pieces_get_and_give_whole_messages(lab: Lab) -> None:
    takers = [await start(lab, kind, IN_PIECES) for kind in ("episub-go", "episub")]
    others = [await start(lab, kind) for kind in ("episub-go", "episub", "leaf")]
    for node in (takers[1], *others):
        await join(node, takers[0])
    nodes = [*takers, *others]
    traffic = Traffic(TOPIC)
    await traffic.publish(takers[1], takers, [BEYOND_AN_RPC])
    before = whole_copies(nodes)
    for author in nodes:
        await traffic.publish(author, nodes, [200 * KIB])
    traffic.check()
    assert whole_copies(nodes) > before
    came = await counts(others[0])
    assert "piece" not in came["in"] | came["out"]
    assert (await counts(takers[0]))["in"]["piece"] >= 24 + 13


@pytest.mark.peers("episub-go")
async def test_a_parent_that_lies_is_left_and_the_message_arrives(lab: Lab) -> None:
    """Every link stands before the lie, so that nothing has to be done while the child waits."""
    # Nobody can dial these two, so that they have no link.
    python = await start(lab, "episub", IN_PIECES, "--no-listen")
    child = await start(lab, "episub-go", IN_PIECES, "--no-listen")
    liar, honest = [await start(lab, "episub-go", IN_PIECES) for _ in range(2)]
    for other in (liar, python):
        await honest.send("block", peer=other.id)
    await join(python, liar)
    await join(child, liar, honest)
    traffic = Traffic(TOPIC)
    # A chain: the liar stays the parent, as the child is the only one that announced to the other.
    await traffic.publish(python, [liar, child, honest], [BEYOND_AN_RPC])
    await honest.send("unblock", peer=python.id)
    await join(python, honest)
    await liar.send("lie")
    await traffic.publish(python, [liar, child, honest], [BEYOND_AN_RPC, 100])
    assert child.reported("refused", peer=liar.id, reason="piece-invalid")
    traffic.check()
