"""Overlays that are there at the start of a run, without joins: degrees, and the latencies of near
links, are distributed as after a join of a minute or so (`tests/sim/test_synthetic.py` holds both
against each other).

Random links are those of cycles through all nodes: those of the rings, as HyParView's are here,
and others in a random order; with an odd number, the last random link of each node comes from a
random pairing. For each near link a node takes the nearest of some random others that have room for
one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any

from episub_router.protocol.hyparview import place
from episub_router.protocol.messages import LinkKind, Neighbor, NeighborRole
from episub_router.protocol.params import EpisubParams, MembershipParams
from episub_router.sim.network.network import Network
from episub_router.sim.routers.episub import TOPIC_NAME, EpisubNode

Links = dict[int, dict[int, LinkKind]]
"""The neighbours of each node, and what each link is for."""


_SHORT = 0.2
"""Share of the nodes that have one near link fewer than they aim at. Measured, 500 to 100,000 nodes
a minute after their joins: 0.2 to 0.22."""

Contacts = Callable[[int], tuple[int, ...]]


def settle(
    nodes: list[EpisubNode], network: Network[Any], params: EpisubParams, looked_at: int,
    contacts: Contacts, rng: Random,
) -> None:  # fmt: skip
    """Put `nodes`, all of `network`, which have begun nothing yet, into an overlay at once; each
    near link goes to the nearest of `looked_at` random nodes, and a node knows its `contacts` as
    joining ones do."""
    ids = [node.id for node in nodes]
    links = synthetic_links(ids, params.membership, looked_at, network.delay, rng)
    for node in nodes:
        node.start(())
    for node in nodes:
        for peer, kind in links[node.id].items():
            if node.id < peer:
                other = network.nodes[peer]
                network.link(node, other)
                node.connected(peer)
                other.connected(node.id)
                _take(node, peer, kind, links, network)
                _take(other, node.id, kind, links, network)
    spares = params.membership.passive_size
    for node in nodes:
        known = rng.sample(ids, min(len(ids), spares + len(links[node.id]) + 1))
        node.topic.membership.adopt_peers(known[:spares])
        # What the links have led to is done now.
        node.meet(contacts(node.id))


def _take(node: EpisubNode, peer: int, kind: LinkKind, links: Links, network: Network[Any]) -> None:
    theirs = links[peer]
    random_links = sum(kind is LinkKind.RANDOM for kind in theirs.values())
    named = tuple(other for other in theirs if other != node.id)
    described = Neighbor(NeighborRole.LIST, len(theirs), kind, named, random_links)
    rtt = 2 * network.delay(node.id, peer)
    node.topic.membership.adopt_link(peer, described, rtt, network.loop.now)


def synthetic_links(
    nodes: Sequence[int], params: MembershipParams, looked_at: int,
    delay: Callable[[int, int], float], rng: Random,
) -> Links:  # fmt: skip
    """The links of each of `nodes`; `delay` says how long a message takes from one to another."""
    links: Links = {node: {} for node in nodes}
    for a, b in _random_pairs(nodes, params, rng):
        if a != b:
            links[a][b] = links[b][a] = LinkKind.RANDOM
    near = params.active_size - _random_links(params)
    room = {node: near - (rng.random() < _SHORT) for node in nodes}
    order = list(nodes)
    for _ in range(near):
        rng.shuffle(order)
        for node in order:
            others = [
                other
                for other in rng.sample(order, min(looked_at, len(order)))
                if other != node and room[other] > 0 and other not in links[node]
            ]
            if others and room[node] > 0:
                other = min(others, key=lambda other: delay(node, other))
                links[node][other] = links[other][node] = LinkKind.NEAR
                room[node] -= 1
                room[other] -= 1
    return links


def _random_links(params: MembershipParams) -> int:
    """Spare links are near ones, where there are any."""
    return params.random_links if params.near_links else params.active_size


def _random_pairs(
    nodes: Sequence[int], params: MembershipParams, rng: Random
) -> Iterator[tuple[int, int]]:
    order = list(nodes)
    on_rings = params.ring_links // 2
    count = _random_links(params)
    for ring in range(count // 2):
        if ring < on_rings:
            order.sort(key=lambda node: place(TOPIC_NAME, ring, node))
        else:
            rng.shuffle(order)
        yield from zip(order, [*order[1:], order[0]], strict=True)
    if count % 2:
        rng.shuffle(order)
        yield from zip(order[::2], order[1::2], strict=False)
