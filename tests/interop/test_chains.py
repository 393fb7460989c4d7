"""Topics in which messages have to cross Episub to get from one stock peer to the next."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest
import trio

from interop.harness.lab import Lab
from interop.harness.links import link, one_mesh
from interop.harness.traffic import Traffic, sizes

TOPIC = "chain"


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(kinds.split("-"), marks=pytest.mark.peers(*kinds.split("-")), id=kinds)
        for kinds in (
            "js-episub-rust",
            "rust-episub-episub-js",
            "py-episub-episub-rust",
            "episub-js-rust-py-episub",
            "go-episub-episub-rust",
            "js-episub-go",
        )
    ],
)
async def test_messages_cross_a_chain(lab: Lab, kinds: list[str]) -> None:
    chain = await lab.start_all(kinds, TOPIC)
    for left, right in pairwise(chain):
        await link(left, right, TOPIC)
    for left, right in pairwise(chain):
        await left.meshed(right, TOPIC)
        await right.meshed(left, TOPIC)
    traffic = Traffic(TOPIC)
    for author in (chain[0], chain[-1]):
        await traffic.publish(author, chain, sizes(50))
    for author in chain[1:-1]:
        await traffic.publish(author, chain, sizes(10))
    traffic.check()


@pytest.mark.peers("go", "js", "rust", "episub")
async def test_a_topic_of_24_gossipsub_and_episub_peers(lab: Lab) -> None:
    kinds = ["go"] * 4 + ["rust"] * 4 + ["js"] * 4 + ["episub"] * 12
    peers = await lab.start_all(kinds, TOPIC)
    rng = Random(5)
    order = rng.sample(peers, len(peers))
    # A random tree keeps the topic in one piece; as many links again make it a mesh.
    links = {(order[i], order[rng.randrange(i)]): None for i in range(1, len(order))}
    while len(links) < 2 * len(peers):
        a, b = rng.sample(peers, 2)
        if (a, b) not in links and (b, a) not in links:
            links[a, b] = None
    async with trio.open_nursery() as nursery:
        for a, b in links:
            nursery.start_soon(link, a, b, TOPIC)
    await one_mesh(peers, TOPIC)
    traffic = Traffic(TOPIC, window=4)
    for author in peers:
        await traffic.publish(author, peers, [0, 1, 1024, 64 * 1024])
    traffic.check()
