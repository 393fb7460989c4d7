"""Peers that come late, leave, come back, die, and topics that share some of them."""

from __future__ import annotations

import pytest

from interop.harness.lab import Lab
from interop.harness.links import mesh_link
from interop.harness.traffic import KIB, Traffic, exchange, sizes
from tests.interop.cells import STOCK

TOPIC = "churn"


def sizes_to_be_replayed(kind: str) -> list[int]:
    """py-libp2p writes recent messages to a peer that subscribes beside what its queue sends:
    within one that takes more than a frame of Yamux, other bytes come."""
    return [size for size in sizes(10) if kind != "py" or size < 64 * KIB]


@pytest.mark.slow
@pytest.mark.peers("js", "rust", "py", "go")
async def test_late_joiners_get_what_follows(lab: Lab) -> None:
    first = await lab.start("rust", topics=[TOPIC])
    episub = await lab.start("episub", topics=[TOPIC])
    await mesh_link(first, episub, TOPIC)
    here = [first, episub]
    for kind in ("js", "go", "py", "episub"):
        await Traffic(TOPIC).publish(first, here, sizes(10))
        late = await lab.start(kind, topics=[TOPIC])
        await mesh_link(late, episub, TOPIC)
        here.append(late)
        traffic = Traffic(f"{TOPIC}")
        for author in here:
            await traffic.publish(author, here, [1, 1024])
    for peer in here:
        ids = [event["id"] for event in peer.reported("delivery")]
        assert len(ids) == len(set(ids))


@pytest.mark.parametrize("kind", STOCK)
@pytest.mark.parametrize("leaving", ["stock", "bridge"])
async def test_a_peer_unsubscribes_and_subscribes_again(lab: Lab, kind: str, leaving: str) -> None:
    stock = await lab.start(kind, topics=[TOPIC])
    bridge = await lab.start("episub", topics=[TOPIC])
    far = await lab.start("episub", topics=[TOPIC])
    everybody = [stock, bridge, far]
    await mesh_link(stock, bridge, TOPIC)
    await mesh_link(far, bridge, TOPIC)
    traffic = Traffic(TOPIC)
    await traffic.publish(far, everybody, sizes_to_be_replayed(kind))
    leaver, others = (stock, [bridge]) if leaving == "stock" else (bridge, [stock, far])
    await leaver.unsubscribe(TOPIC)
    for other in others:
        await other.forgets(leaver, TOPIC)
    if leaving == "stock":
        # Gossip announces the last seconds' messages, so they may come after all.
        await traffic.publish(far, [bridge], sizes(10), perhaps=[stock])
    await leaver.subscribe(TOPIC)
    for other in others:
        await other.knows(leaver, TOPIC)
        await leaver.knows(other, TOPIC)
    for author in (bridge, far):
        await traffic.publish(author, everybody, sizes(10))
    if kind == "go":  # js and rust send what they publish beyond their mesh
        await stock.meshed(bridge, TOPIC)
    # While a back-off keeps its mesh empty, what py-libp2p's GossipSub publishes is lost.
    if kind != "py":
        await traffic.publish(stock, everybody, sizes(10))
    traffic.check()


@pytest.mark.peers("js", "rust", "go")
@pytest.mark.parametrize("victim", ["js", "rust", "go", "episub"])
async def test_the_others_go_on_when_one_is_killed(lab: Lab, victim: str) -> None:
    kinds = ["episub", "js", "go", "rust", "episub"]
    ring = await lab.start_all(kinds, TOPIC)
    for left, right in zip(ring, [*ring[1:], ring[0]], strict=True):
        await mesh_link(left, right, TOPIC)
    before = Traffic(TOPIC)
    for author in ring:
        await before.publish(author, ring, sizes(10))
    before.check()
    dead = ring[kinds.index(victim)]
    others = [peer for peer in ring if peer is not dead]
    await dead.kill()
    for author in others:
        await before.publish(author, others, sizes(10))
    before.expected.pop(dead)
    before.check()


@pytest.mark.parametrize("kind", STOCK)
async def test_an_episub_node_comes_back_with_its_identity(lab: Lab, kind: str) -> None:
    stock = await lab.start(kind, topics=[TOPIC])
    episub = await lab.start("episub", "--key-seed=again", topics=[TOPIC])
    await mesh_link(episub, stock, TOPIC)
    traffic = Traffic(TOPIC)
    await traffic.publish(episub, [stock], sizes_to_be_replayed(kind))
    await episub.kill()
    await stock.event("disconnected", peer=episub.id)
    await stock.until(lambda: not stock.mesh(TOPIC), "an empty mesh")
    address = episub.addresses[0].split("/p2p/")[0]
    again = await lab.start("episub", "--key-seed=again", f"--listen={address}", topics=[TOPIC])
    assert again.id == episub.id
    await again.dial(stock)
    await again.knows(stock, TOPIC)
    await stock.until(
        lambda: len(stock.reported("peer_subscribed", peer=again.id)) >= 2, "its return"
    )
    await stock.meshed(again, TOPIC)
    after = Traffic(TOPIC)
    await traffic.publish(again, [stock], sizes(10))
    await after.publish(stock, [again], sizes(10))
    traffic.check()
    after.check()


@pytest.mark.peers("js", "rust", "py", "go")
async def test_two_topics_keep_to_their_peers(lab: Lab) -> None:
    bridge = await lab.start("episub", topics=["blue", "red"])
    blue = [
        bridge,
        await lab.start("js", topics=["blue"]),
        await lab.start("episub", topics=["blue"]),
    ]
    red = [bridge, *[await lab.start(kind, topics=["red"]) for kind in ("rust", "py", "go")]]
    for topic, peers in (("blue", blue), ("red", red)):
        for peer in peers[1:]:
            await mesh_link(peer, bridge, topic)
    both = {"blue": Traffic("blue"), "red": Traffic("red")}
    for topic, peers in (("blue", blue), ("red", red)):
        for author in peers:
            await both[topic].publish(author, peers, sizes(10))
    for topic, peers in (("blue", blue), ("red", red)):
        both[topic].check()
        for peer in peers[1:]:
            assert {event["topic"] for event in peer.reported("delivery")} == {topic}


@pytest.mark.parametrize("kind", STOCK)
async def test_a_subscriber_of_one_more_topic_is_served_in_both(lab: Lab, kind: str) -> None:
    stock = await lab.start(kind, topics=["one"])
    episub = await lab.start("episub", topics=["one", "two"])
    await mesh_link(stock, episub, "one")
    await stock.subscribe("two")
    await stock.meshed(episub, "two")
    await episub.meshed(stock, "two")
    for topic in ("one", "two"):
        await exchange(topic, [stock, episub], sizes(10))
