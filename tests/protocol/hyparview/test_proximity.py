"""Networks whose links have lengths: near links get near, random links stay random."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from math import hypot
from random import Random
from statistics import mean
from typing import Any

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import Dial, MeasureRtt, NeighborDown, Release, Send
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
from episub_router.protocol.params import EpisubParams, MembershipParams
from episub_router.protocol.rtt import Rtt
from episub_router.protocol.topic import Topic
from tests.protocol.helpers import Member, sent, specified
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
    network = plane(120, 1)
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
    for seed in range(1, 4):
        network = Network(120, seed=seed)
        network.join_all(2)
        network.run(4)
        assert max(len(network.neighbors(node)) for node in network.live) > PARAMS.active_size
        network.run(90)
        sizes = Counter(len(network.neighbors(node)) for node in network.live)
        full += sum(sizes[size] for size in range(PARAMS.active_size - 1, PARAMS.active_size + 2))
        assert min(sizes) >= PARAMS.random_links
        assert network.components() == 1
        assert network.one_sided() == []
    assert full >= 0.96 * 3 * 120


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


def member(*neighbors: int, kind: LinkKind = LinkKind.RANDOM, near_rtt: float = 0.1) -> Topic:
    """Node 0 with `neighbors`, all of the kind, measured at `near_rtt`, with links to spare."""
    sizes = MembershipParams(active_size=7, near_links=3, rings=0)
    topic = Topic(0, "t", EpisubParams(membership=sizes), Random(1))
    topic.handle(ev.JoinOverlay(), 0.0)
    for peer in neighbors:
        request = Neighbor(NeighborRole.REQUEST, 7, kind, (), 5)
        topic.handle(ev.Received(peer, request), 0.0)
        topic.handle(ev.RttMeasured(peer, near_rtt), 0.0)
    return topic


def sent_to(effects: list, peer: int) -> list:  # type: ignore[type-arg]
    return [e.message for e in effects if isinstance(e, Send) and e.peer == peer]


def run_timers(topic: Topic, until: float) -> list:  # type: ignore[type-arg]
    effects = []
    while topic.next_deadline() <= until:
        effects += topic.handle_timer(topic.next_deadline())
    return effects


def test_who_answers_no_pings_is_as_far_as_can_be() -> None:
    """E18: failed measurements count, once they are several in a row: anybody is nearer then."""
    topic = member(1, 2, 3, 4, 5, 6, 7, kind=LinkKind.NEAR, near_rtt=0.03)
    for failed in (RTT_FAILURES - 1, RTT_FAILURES):
        topic.handle(ev.RttMeasured(3, 0.03), 0.5)
        for _ in range(failed):
            topic.handle(ev.RttMeasured(3, None), 1.0)
        topic.handle(ev.Received(8, Neighbor(NeighborRole.REQUEST, 5, LinkKind.NEAR)), 1.0)
        effects = topic.handle(ev.RttMeasured(8, 0.1), 1.1)
        evicted = [e.peer for e in effects if isinstance(e, NeighborDown)]
        assert evicted == ([3] if failed == RTT_FAILURES else [])


def test_a_passive_peer_that_answers_no_ping_is_of_unknown_distance() -> None:
    """E18: others come first."""
    topic = member(1, 2)
    topic.handle(ev.ContactsFound((8,)), 0.0)
    topic.handle(ev.RttMeasured(8, 0.01), 0.0)
    assert topic.membership.passive.rtt(8) is not None
    topic.handle(ev.RttMeasured(8, None), 0.0)
    assert topic.membership.passive.rtt(8) is None
    assert 8 in topic.membership.passive


def test_a_nearer_passive_peer_replaces_a_far_neighbour() -> None:
    """E18: the nearest passive peer is asked first; only when it has accepted does the far
    neighbour go."""
    topic = member(1, 2, 3, 4, 5, 6, 7, kind=LinkKind.NEAR)
    topic.handle(ev.ContactsFound((8,)), 0.0)
    topic.handle(ev.Connected(8), 0.0)
    topic.handle(ev.RttMeasured(8, 0.01), 0.0)
    now, asked = 0.0, []
    while not asked:
        now = topic.next_deadline()
        assert now <= 20
        effects = topic.handle_timer(now)
        assert not [e for e in effects if isinstance(e, NeighborDown)]
        asked = [m for m in sent_to(effects, 8) if isinstance(m, Neighbor)]
    assert (asked[0].role, asked[0].kind) == (NeighborRole.REQUEST, LinkKind.NEAR)
    accept = Neighbor(NeighborRole.ACCEPT, 7, LinkKind.NEAR, (), 4)
    effects = topic.handle(ev.Received(8, accept), now + 0.1)
    assert 8 in topic.membership.active
    assert len([e for e in effects if isinstance(e, NeighborDown)]) == 1
    assert len(topic.membership.active) == 7


def test_upkeep_measures_who_is_there_and_forgets_who_is_not() -> None:
    """E21: GETTOPICS to passive peers; one in the topic is measured and released, one that has
    left it, can't be dialled or doesn't answer is forgotten."""
    topic = member(1, 2, 3, 4, 5, 6, 7)
    topic.handle(ev.ContactsFound((11, 12)), 0.0)
    for peer in (11, 12):
        topic.handle(ev.Connected(peer), 0.0)
    asked = [
        e.peer
        for e in run_timers(topic, 11)
        if isinstance(e, Send) and isinstance(e.message, GetTopics)
    ]
    assert sorted(asked) == [11, 12]
    now = topic.next_deadline()
    assert MeasureRtt(11) in topic.handle(ev.Received(11, Topics(("t", "u"))), now)
    assert Release(11) in topic.handle(ev.RttMeasured(11, 0.02), now)
    assert topic.membership.passive.rtt(11) is not None
    topic.handle(ev.Received(12, Topics(())), now)
    assert 12 not in topic.membership.passive
    topic.handle(ev.ContactsFound((13, 14)), now)
    topic.handle(ev.Connected(13), now)
    run_timers(topic, now + 60)
    assert 13 not in topic.membership.passive
    topic.handle(ev.DialFailed(14), now + 60)
    assert 14 not in topic.membership.passive


def test_ends_that_disagree_about_a_link_agree_on_random() -> None:
    """E18: requests that cross may be of different kinds; random is the one that is kept."""
    topic = member(1, kind=LinkKind.NEAR)
    topic.handle(ev.Received(1, Neighbor(NeighborRole.REQUEST, 7, LinkKind.RANDOM, (), 5)), 1.0)
    link = topic.membership.active.get(1)
    assert link is not None
    assert link.kind is LinkKind.NEAR
    topic.handle(ev.Received(1, Neighbor(NeighborRole.ACCEPT, 7, LinkKind.RANDOM, (), 5)), 1.0)
    assert link.kind is LinkKind.RANDOM


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
    topic = member(1, 2, 3, 4, 5, 6, 7, kind=LinkKind.NEAR, near_rtt=0.01)
    for _ in range(samples):
        topic.handle(ev.RttMeasured(3, 0.2), 0.5)
    assert (topic.membership.rtt_of(3) or 0) > 0.09
    topic.handle(ev.Received(8, Neighbor(NeighborRole.REQUEST, 5, LinkKind.NEAR)), 1.0)
    effects = topic.handle(ev.RttMeasured(8, 0.02), 1.1)
    evicted = [e.peer for e in effects if isinstance(e, NeighborDown)]
    assert evicted == ([] if samples == 5 else [3])


def test_who_is_still_being_dialled_isn_t_forgotten() -> None:
    """E21: a dial may take longer than a period."""
    topic = member(1, 2, 3, 4, 5, 6, 7)
    topic.handle(ev.ContactsFound((11, 12)), 0.0)
    dialled = [e.peer for e in run_timers(topic, 40) if isinstance(e, Dial)]
    assert {11, 12} <= set(dialled)
    assert {11, 12} <= set(topic.membership.passive)


def test_a_passive_peer_is_checked_once() -> None:
    """E21: at rest, once each peer that it knows is measured, a node dials nobody; one that others
    name is checked when it comes."""
    topic = member(1, 2, 3, 4, 5, 6, 7)
    checks: list[int] = []

    def run_until(end: float) -> None:
        while (now := topic.next_deadline()) < end:
            for effect in topic.handle_timer(now):
                if isinstance(effect, Send) and isinstance(effect.message, GetTopics):
                    checks.append(effect.peer)
                    topic.handle(ev.Received(effect.peer, Topics(("t",))), now)
                    topic.handle(ev.RttMeasured(effect.peer, 0.05), now)

    for peer in range(11, 40):
        topic.handle(ev.Connected(peer), 0.0)
        topic.handle(ev.ContactsFound((peer,)), 0.0)
    run_until(4_000)
    assert sorted(checks) == [*range(11, 40)]
    topic.handle(ev.Connected(40), 4_000.0)
    topic.handle(ev.ContactsFound((40,)), 4_000.0)
    run_until(8_000)
    assert checks[-1] == 40
    assert len(checks) == 30


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
    topic = member(1, 2, 3, 4, 5, 6, 7)
    strangers = iter(range(100, 1000))
    for _ in range(40):
        topic.handle(ev.ContactsFound((peer := next(strangers),)), 0.0)
        topic.handle(ev.Connected(peer), 0.0)
    rounds: list[float] = []
    measured = 0
    while (now := topic.next_deadline()) < 3600:
        probes = sent(topic.handle_timer(now), GetTopics)
        rounds += [now] * bool(probes)
        for peer, _ in probes:
            topic.handle(ev.Received(peer, Topics(("t",))), now)
            topic.handle(ev.RttMeasured(peer, 0.1), now)
            measured += now < 200
            topic.membership.passive.remove(peer)
            topic.handle(ev.ContactsFound((peer := next(strangers),)), now)
            topic.handle(ev.Connected(peer), now)
    assert measured >= 64
    assert max(b - a for a, b in pairwise(rounds[1:16])) <= 15
    assert rounds[-1] - rounds[-2] > 300
