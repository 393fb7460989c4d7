"""Networks whose links have lengths: near links get near, random links stay random."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import count, pairwise
from math import hypot
from random import Random
from statistics import mean
from typing import Any

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import Effect, MeasureRtt, NeighborDown, Release
from episub_router.protocol.hyparview import Places
from episub_router.protocol.hyparview.link_check import LIST_TIMEOUT
from episub_router.protocol.hyparview.views import RTT_FAILURES
from episub_router.protocol.messages import (
    Disconnect,
    GetTopics,
    Join,
    LinkKind,
    Neighbor,
    NeighborRole,
    Topics,
)
from episub_router.protocol.params import MembershipParams
from episub_router.protocol.rtt import Rtt
from tests.protocol.helpers import Member, accept, dials, request, requests, sent, specified
from tests.protocol.network import Network

PARAMS = MembershipParams()


def plane(size: int, seed: int) -> Network:
    """Nodes anywhere on the unit square, 2 ms and 100 ms per unit of distance apart."""
    rng = Random(seed)
    places = [(rng.random(), rng.random()) for _ in range(size)]

    def delay(a: int, b: int) -> float:
        (ax, ay), (bx, by) = places[a], places[b]
        return 0.002 + 0.1 * hypot(ax - bx, ay - by)

    return Network(size, seed=seed, delay=delay)


def lengths(network: Network, kind: LinkKind) -> list[float]:
    return [
        network.delay(node, peer)
        for node in network.live
        for peer, link in network.topics[node].membership.active.items()
        if link.kind is kind
    ]


@pytest.fixture(scope="module")
def settled() -> Network:
    network = plane(80, 1)
    network.join_all(5)
    network.run(300)
    return network


@pytest.mark.slow
def test_near_links_are_near_and_random_ones_are_not(settled: Network) -> None:
    """E10, E18, E21: after five minutes the near links are far shorter than the random ones."""
    assert mean(lengths(settled, LinkKind.NEAR)) < 0.4 * mean(lengths(settled, LinkKind.RANDOM))
    assert settled.components() == 1
    assert settled.one_sided() == []


@pytest.mark.slow
def test_nobody_gives_its_random_links_up(settled: Network) -> None:
    """E18: proximity never costs one of the C_rand random links, and both ends agree on kinds."""
    for node in settled.live:
        active = settled.topics[node].membership.active
        assert active.count(LinkKind.RANDOM) >= min(PARAMS.random_links, len(active))
        for peer, link in active.items():
            other = settled.topics[peer].membership.active.get(node)
            assert other is not None
            assert other.kind is link.kind


@pytest.mark.slow
def test_oversubscribed_views_shrink_to_their_size() -> None:
    """E13, E16: after a join storm nearly all views have exactly A links, none fewer than
    C_rand, and the overlay is whole."""
    full = 0
    for seed in range(1, 3):
        network = Network(80, seed=seed)
        network.join_all(2)
        network.run(4)
        assert max(len(network.neighbors(node)) for node in network.live) > PARAMS.active_size
        network.run(90)
        sizes = Counter(len(network.neighbors(node)) for node in network.live)
        full += sum(sizes[size] for size in range(PARAMS.active_size - 1, PARAMS.active_size + 2))
        assert min(sizes) >= PARAMS.random_links
        assert network.components() == 1
        assert network.one_sided() == []
    assert full >= 0.96 * 2 * 80


def test_the_farthest_goes_where_views_are_too_large() -> None:
    """E16: of peers that can spare a link alike; one that answers no pings is the farthest."""
    member = Member(
        "a", "b", "c", "d", membership=specified(active_size=2, random_links=1, near_links=0)
    )
    for peer, rtt in (("a", 0.020), ("b", 0.090), ("c", 0.040)):
        member.handle(ev.RttMeasured(peer, rtt))
    for _ in range(RTT_FAILURES):
        member.handle(ev.RttMeasured("d", None))
    while not (queries := sent(member.wait(0.1), Neighbor)):
        pass
    for peer, _ in queries:
        member.receive(peer, Neighbor(NeighborRole.LIST, 5, random_links=5))
    effects = member.wait(LIST_TIMEOUT)
    assert [peer for peer, _ in sent(effects, Disconnect)] == ["d", "b"]


@pytest.mark.slow
def test_links_at_rest_do_not_flap(settled: Network) -> None:
    """E18: alpha and the least gain keep links from going to and fro."""
    before = {(node, peer) for node in settled.live for peer in settled.neighbors(node)}
    settled.run(60)
    after = {(node, peer) for node in settled.live for peer in settled.neighbors(node)}
    assert len(before - after) < 0.1 * len(before)


# One node


def linked(
    neighbors: str, kind: LinkKind = LinkKind.RANDOM, rtt: float = 0.1, passive: str = ""
) -> Member:
    """A member whose neighbours are all of the kind, and have links to spare."""
    member = Member(membership=specified(), passive=passive)
    for peer in neighbors:
        member.link(peer, kind, 7, 5)
        member.handle(ev.RttMeasured(peer, rtt))
    for peer in passive:
        member.handle(ev.Connected(peer))
    return member


def evicted(effects: list[Effect]) -> list[Any]:
    return [effect.peer for effect in effects if isinstance(effect, NeighborDown)]


def evicted_for(member: Member, peer: str, rtt: float) -> list[Any]:
    """The neighbours that give way to `peer`, which asks for a near link."""
    member.receive(peer, request(5, LinkKind.NEAR))
    return evicted(member.handle(ev.RttMeasured(peer, rtt)))


def test_who_answers_no_pings_is_as_far_as_can_be() -> None:
    """E18: failed measurements count, once they are several in a row: anybody is nearer then."""
    member = linked("abcdefg", LinkKind.NEAR, 0.03)
    for failed in (RTT_FAILURES - 1, RTT_FAILURES):
        member.handle(ev.RttMeasured("c", 0.03))
        for _ in range(failed):
            member.handle(ev.RttMeasured("c", None))
        assert evicted_for(member, "p", 0.1) == (["c"] if failed == RTT_FAILURES else [])


def test_a_passive_peer_that_answers_no_ping_is_of_unknown_distance() -> None:
    """E18: others come first."""
    passive = linked("ab", passive="p").machine.membership.passive
    passive.update_rtt("p", 0.01)
    assert passive.rtt("p") is not None
    passive.update_rtt("p", None)
    assert passive.rtt("p") is None
    assert "p" in passive


def test_a_nearer_passive_peer_replaces_a_far_neighbour() -> None:
    """E18: the nearest passive peer is asked first; only when it has accepted does the far
    neighbour go."""
    member = linked("abcdefg", LinkKind.NEAR, passive="p")
    member.handle(ev.RttMeasured("p", 0.01))
    while "p" not in requests(effects := member.wait(0.5)):
        assert member.now <= 20
        assert not evicted(effects)
    assert {said.kind for peer, said in sent(effects, Neighbor) if peer == "p"} == {LinkKind.NEAR}
    effects = member.receive("p", accept(7, LinkKind.NEAR))
    assert "p" in member.active
    assert len(evicted(effects)) == 1
    assert len(member.active) == 7


def test_upkeep_measures_who_is_there_and_forgets_who_is_not() -> None:
    """E21: GETTOPICS to passive peers; one in the topic is measured and released, one that has
    left it, can't be dialled or doesn't answer is forgotten."""
    member = linked("abcdefg", passive="pq")
    assert sorted(peer for peer, _ in sent(member.wait(11), GetTopics)) == ["p", "q"]
    assert MeasureRtt("p") in member.receive("p", Topics(("t", "u")))
    assert Release("p") in member.handle(ev.RttMeasured("p", 0.02))
    assert member.machine.membership.passive.rtt("p") is not None
    member.receive("q", Topics(()))
    assert "q" not in member.passive
    member.handle(ev.ContactsFound(("r", "s")))
    member.handle(ev.Connected("r"))
    member.wait(60)
    assert "r" not in member.passive
    member.handle(ev.DialFailed("s"))
    assert "s" not in member.passive


def test_ends_that_disagree_about_a_link_agree_on_random() -> None:
    """E18: requests that cross may be of different kinds; random is the one that is kept."""
    member = linked("a", LinkKind.NEAR)
    link = member.machine.membership.active.get("a")
    assert link is not None
    for said, kind in ((request(7), LinkKind.NEAR), (accept(7), LinkKind.RANDOM)):
        member.receive("a", said)
        assert link.kind is kind


def test_round_trips_are_smoothed() -> None:
    """E18: one slow ping doesn't make a far peer."""
    rtt = Rtt(0.1)
    rtt.update(0.9)
    assert rtt.mean == pytest.approx(0.2)
    assert rtt.spread > 0.2
    for _ in range(50):
        rtt.update(0.1)
    assert rtt.mean == pytest.approx(0.1, abs=0.01)


def test_the_shortest_round_trip_is_one_of_late() -> None:
    """E18: a queue on the way doesn't lengthen it, a longer way does."""
    rtt = Rtt(0.01)
    for sample in (0.2, 0.3, 0.01, 0.4):
        rtt.update(sample)
    assert rtt.mean > 0.05
    assert rtt.least < 0.011
    for _ in range(12):
        rtt.update(0.1)
    assert 0.02 < rtt.least < 0.1
    for _ in range(50):
        rtt.update(0.1)
    assert rtt.least == 0.1


@pytest.mark.parametrize("samples", [5, 50])
def test_a_neighbour_that_was_near_of_late_is_kept(samples: int) -> None:
    """E18: a busy machine makes most round trips long, to near neighbours too; after many long ones
    none is near."""
    member = linked("abcdefg", LinkKind.NEAR, 0.01)
    for _ in range(samples):
        member.handle(ev.RttMeasured("c", 0.2))
    assert (member.machine.membership.rtt_of("c") or 0) > 0.09
    assert evicted_for(member, "p", 0.02) == ([] if samples == 5 else ["c"])


def test_who_is_still_being_dialled_isn_t_forgotten() -> None:
    """E21: a dial may take longer than a period."""
    member = linked("abcdefg")
    member.handle(ev.ContactsFound(("p", "q")))
    assert {"p", "q"} <= {*dials(member.wait(40))}
    assert {"p", "q"} <= member.passive


def checks(member: Member, until: float, rtt: float) -> Iterator[Any]:
    """The passive peers that are asked for their topics; each answers at once."""
    while (due := member.machine.next_deadline()) < until:
        for peer, _ in sent(member.wait(due - member.now), GetTopics):
            member.receive(peer, Topics(("t",)))
            member.handle(ev.RttMeasured(peer, rtt))
            yield peer


def test_a_passive_peer_is_checked_once() -> None:
    """E21: at rest, once each peer that it knows is measured, a node dials nobody; one that others
    name is checked when it comes."""
    known = [chr(ord("A") + n) for n in range(29)]
    member = linked("abcdefg", passive="".join(known))
    assert sorted(checks(member, 4_000, 0.05)) == known
    member.handle(ev.Connected("new"))
    member.handle(ev.ContactsFound(("new",)))
    assert [*checks(member, 8_000, 0.05)] == ["new"]


@pytest.mark.parametrize(("random", "triangle"), [(5, False), (4, True), (4, False)])
def test_a_view_too_large_asks_for_lists(random: int, triangle: bool) -> None:
    """E16: of those that it doesn't keep whatever they say; the lists show peers that can spare a
    link, and triangles. Where there are neither, the view stays as large."""
    member = Member(*(f"n{n}" for n in range(8)), membership=specified())
    queries: dict[str, Neighbor] = {}
    while not queries:
        queries = dict(sent(member.wait(0.9), Neighbor))
        for n in range(8):
            member.receive(f"n{n}", Neighbor(NeighborRole.LIST, 7, random_links=4))
    assert {said.numbers_only for said in queries.values()} == {False}
    assert set(queries) == {f"n{n}" for n in range(2, 8)}
    for peer in queries:
        peers = ("n0",) if triangle else ("elsewhere",)
        member.receive(peer, Neighbor(NeighborRole.LIST, 7, peers=peers, random_links=random))
    member.wait(LIST_TIMEOUT)
    assert len(member.active) == (7 if triangle or random > 4 else 8)


@pytest.mark.parametrize("rings", [0, 2])
def test_the_oldest_random_links_outlast_any_number_of_claims(rings: int) -> None:
    """E10, E16, E18: JOINs that must be accepted, requests of peers in need and nearer ones, and
    neighbours that say they can spare their links."""
    member = Member(membership=specified(rings=rings))
    kept: list[Any] = [*Places("t", rings).next_to("me", map(str, range(40)))] or ["a", "b"]
    for peer in kept:
        member.link(peer, LinkKind.RANDOM, links=9, random_links=6)
        member.handle(ev.RttMeasured(peer, 0.1))
    for n in range(60):
        liar = f"liar{n}"
        if member.machine.membership._overlay.is_next_on_a_ring(liar):
            continue
        member.receive(liar, Join(liar, 0))
        member.receive(liar, Neighbor(NeighborRole.REQUEST, 1))
        member.receive(liar, Neighbor(NeighborRole.REQUEST, 9, LinkKind.NEAR, random_links=6))
        member.handle(ev.RttMeasured(liar, 0.001))
        assert len(member.active) <= member.params.active_bound
        for peer, said in sent(member.wait(1), Neighbor):
            if said.role is NeighborRole.QUERY:
                links = 9 if peer in kept else 1
                member.receive(peer, Neighbor(NeighborRole.LIST, links, random_links=links - 1))
    assert set(kept) <= member.active


def test_a_lan_is_not_searched_for_nearer_peers() -> None:
    """E18, E21: where all neighbours are so near that nobody could be nearer by what counts,
    whatever they were measured at in a storm of joins, when hosts are busy."""
    for first, later, searched in ((0.05, 0.002, False), (0.05, 0.05, True)):
        member = Member(*(f"n{n}" for n in range(8)), passive=[f"p{n}" for n in range(20)])
        for rtt in (first, later):
            for n in range(8):
                member.handle(ev.RttMeasured(f"n{n}", rtt))
        for n in range(20):
            member.handle(ev.Connected(f"p{n}"))
        assert bool(sent(member.wait(15), GetTopics)) == searched


def test_nobody_is_dialled_for_nearness_before_a_neighbour_was_measured() -> None:
    """E21: on a LAN all are near, and dials would find nobody nearer."""
    node = Member(*"abcdefgh", passive=["p"])
    node.handle(ev.Connected("p"))
    effects = node.wait(10)
    assert [effect for effect in effects if isinstance(effect, MeasureRtt)]
    assert not sent(effects, GetTopics)
    node.handle(ev.RttMeasured("a", 0.1))
    assert [peer for peer, _ in sent(node.wait(10), GetTopics)] == ["p"]


def test_so_many_strangers_are_measured_at_short_intervals() -> None:
    """E21: in a large overlay shuffles bring strangers for ever; once near links are found they are
    measured seldom."""
    member = linked("abcdefg")
    strangers = map(str, count())

    def come() -> None:
        peer = next(strangers)
        member.handle(ev.ContactsFound((peer,)))
        member.handle(ev.Connected(peer))

    for _ in range(40):
        come()
    at: list[float] = []
    for peer in checks(member, 3600, 0.1):
        at.append(member.now)
        member.machine.membership.passive.remove(peer)
        come()
    assert sum(time < 200 for time in at) >= 64
    rounds = sorted({*at})
    assert max(b - a for a, b in pairwise(rounds[1:16])) <= 15
    assert rounds[-1] - rounds[-2] > 300
