"""Asking for links, granting and refusing them (E09, E10, E12, E17)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import (
    DownReason,
    DropReason,
    MeasureRtt,
    NeighborDown,
    NeighborUp,
)
from episub_router.protocol.hyparview.machine import RateLimiter
from episub_router.protocol.hyparview.neighbor import (
    MAX_MEASURING,
    REFUSED_BACKOFF,
    REFUSED_BACKOFF_IN_NEED,
)
from episub_router.protocol.messages import (
    Disconnect,
    GetTopics,
    Join,
    LinkKind,
    Neighbor,
    NeighborRole,
    Topics,
)
from tests.protocol.helpers import Member, accept, dials, drops, request, requests, sent, specified


def grown(*neighbors: str, passive: Iterable[str] = (), seed: int = 0) -> Member:
    """A member of the specification's sizes."""
    return Member(*neighbors, passive=passive, seed=seed, membership=specified())


def answered(member: Member, seconds: float) -> list[Any]:
    """What the member does in that time, while its neighbours answer queries, and others say that
    they are in the topic."""
    effects: list[Any] = []
    for _ in range(round(seconds)):
        for effect in member.wait(1):
            effects.append(effect)
            for peer, _ in sent([effect], GetTopics):
                member.receive(peer, Topics(("t",)))
            for peer, said in sent([effect], Neighbor):
                if said.role is NeighborRole.QUERY:
                    member.receive(peer, Neighbor(NeighborRole.LIST, 7, said.kind, random_links=4))
    return effects


def test_request_is_over_when_the_peer_is_a_neighbour_already() -> None:
    """E09, E17: a peer that came in by its JOIN while it was being asked takes up one link, not
    two: the other one that is missing is asked for elsewhere."""
    member = grown("a", "b", "c", "d", "e", passive=["p"])
    assert dials(member.wait(3)) == ["p"]
    member.receive("a", Join("p", 0))
    assert requests(member.handle(ev.Connected("p"))) == ["p"]
    assert member.active == set("abcdep")
    member.receive("p", accept())
    member.handle(ev.ContactsFound(("q",)))
    assert dials(answered(member, 20)) == ["q"]


def test_a_fruitless_search_slows_down() -> None:
    """E17: once C_rand links stand, each search takes twice as long to come, whatever the
    requests' own time-outs; a full overlay isn't asked over and over."""
    peers = [f"p{n}" for n in range(40)]
    member = grown("a", "b", "c", "d", "e", "f", passive=peers)
    for peer in peers:
        member.handle(ev.Connected(peer))
    asked = []
    for _ in range(600):
        for peer in requests(answered(member, 1)):
            member.receive(peer, Disconnect())
            asked.append(peer)
    assert 6 <= len(asked) <= 16


def test_who_ended_a_link_is_not_asked_for_it_at_once() -> None:
    """E09, E16, E17: the peer has just said that it has too many links; though it is the one
    whose RTT is known, others are asked first."""
    member = grown("a", "b", "c", "d", "e", "f", "g", passive=["p"])
    member.handle(ev.RttMeasured("a", 0.01))
    effects = member.receive("a", Disconnect())
    assert "a" in member.passive
    assert dials(effects) == ["p"]
    assert requests(effects) == []
    effects = member.handle(ev.DialFailed("p"))
    assert requests(effects) == []
    assert set(requests(answered(member, 3 * REFUSED_BACKOFF))) == {"a"}


def full(kind: LinkKind = LinkKind.NEAR, rtt: float = 0.1, **changed: Any) -> Member:
    """A member with A links, C_rand of them random and the others of the given kind, to peers
    at `rtt` seconds that have links to spare."""
    member = Member(membership=specified(**changed))
    for n in range(member.params.active_size):
        random = n < member.params.random_links
        member.link(f"n{n}", LinkKind.RANDOM if random else kind, 7, 5)
        member.handle(ev.RttMeasured(f"n{n}", rtt))
    return member


def test_room_that_came_while_the_rtt_was_measured_is_given() -> None:
    """E10: with fewer than A links a request is accepted, however far the asker is."""
    member = full()
    assert MeasureRtt("p") in member.receive("p", request(7))
    member.handle(ev.PeerDown("n0"))
    effects = member.handle(ev.RttMeasured("p", 0.5))
    assert sent(effects, Neighbor, Disconnect)[0][1].role is NeighborRole.ACCEPT
    assert "p" in member.active


def test_asking_twice_is_measured_once() -> None:
    """E10: repeating a request doesn't make us measure more."""
    member = full()
    assert MeasureRtt("p") in member.receive("p", request(7))
    assert member.receive("p", request(7)) == []
    effects = member.handle(ev.RttMeasured("p", 0.5))
    assert sent(effects) == [("p", Disconnect())]


# Asking


def test_missing_links_are_asked_for_until_there_are_enough() -> None:
    """E09, E17: as many requests as links are missing, each with the number of links we have;
    one that refuses is followed by the next, one that accepts is a neighbour."""
    peers = [f"p{n}" for n in range(20)]
    member = grown("n", passive=peers)
    first = dials(member.wait(2.5))
    assert len(first) == 6
    effects = [effect for peer in first for effect in member.handle(ev.Connected(peer))]
    assert set(requests(effects)) == set(first)
    assert all(message.links == 1 for _, message in sent(effects, Neighbor))
    effects = member.receive(first[0], Disconnect())
    (following,) = dials(effects)
    assert following not in first
    assert first[0] in member.passive
    for peer in first[1:]:
        member.receive(peer, accept())
    assert member.active == {"n", *first[1:]}
    assert not member.active & member.passive


def test_nearest_candidates_are_asked_first() -> None:
    """E09: passive peers of known RTT are asked in its order, the others after them. While
    random links are missing, chance decides: nearness would undo their purpose."""
    peers = [f"p{n}" for n in range(20)]
    member = grown("a", "b", "c", "d", passive=peers)
    for n, peer in enumerate(peers[:10]):
        member.handle(ev.RttMeasured(peer, 1 - n / 20))
    assert dials(member.wait(2.5)) == ["p9", "p8", "p7"]
    short = [grown("a", passive=peers, seed=seed) for seed in range(8)]
    firsts = set()
    for member in short:
        for n, peer in enumerate(peers[:10]):
            member.handle(ev.RttMeasured(peer, 1 - n / 20))
        firsts.add(dials(member.wait(2.5))[0])
    assert len(firsts) > 1


def test_no_answer_counts_as_a_refusal() -> None:
    """E09, E17: a silent peer is not waited for, nor asked again for a while."""
    member = grown("a", "b", "c", "d", "e", "f", passive=["p"])
    assert dials(member.wait(2.5)) == ["p"]
    member.handle(ev.Connected("p"))
    assert requests(answered(member, REFUSED_BACKOFF - 5)) == []
    member.handle(ev.ContactsFound(("p",)))
    assert requests(answered(member, 2 * REFUSED_BACKOFF)) != []


def test_a_node_in_need_asks_again_soon_those_that_refused() -> None:
    """E09, E17: in a small overlay everybody may have refused once, and have room since others
    were lost. Not sooner than they answer, and at C_rand links with the patience of all others."""
    member = grown("a", "b", passive=["p"])
    dials(member.wait(3))
    member.handle(ev.Connected("p"))
    refused = 0
    for _ in range(120):
        member.handle(ev.ContactsFound(("p",)))
        for peer in requests(member.receive("p", Disconnect()) + answered(member, 1)):
            assert peer == "p"
            refused += 1
    assert 120 / (2 * REFUSED_BACKOFF_IN_NEED) <= refused <= 120 / REFUSED_BACKOFF_IN_NEED
    member.link("c")
    member.link("d")
    assert requests(answered(member, REFUSED_BACKOFF - 20)) == []


def test_those_that_refused_are_asked_again_no_more_often_than_they_answer() -> None:
    """E09: REQUESTs beyond the receiver's limit would be lost, and count as refusals."""
    limiter = RateLimiter()
    for n in range(100):
        assert limiter.allows("p", request(0), n * REFUSED_BACKOFF_IN_NEED)


def test_lost_link_is_replaced_at_once() -> None:
    """E15, E17: without waiting for the timer."""
    member = Member(*"abcdefgh", passive=["p"])
    assert dials(member.handle(ev.PeerDown("a"))) == ["p"]


def test_full_view_asks_nobody() -> None:
    """E17: growing stops at A."""
    member = full(passive_size=42)
    member.handle(ev.ContactsFound(("p", "q")))
    assert not requests(answered(member, 60))


# Granting


def test_room_is_given() -> None:
    """E10: fewer than A links: accepted, of the kind that was asked for, and notified."""
    member = Member("a", "b", "c", "d")
    effects = member.receive("p", request(7, LinkKind.NEAR))
    ((peer, answer),) = sent(effects, Neighbor)
    assert (peer, answer.role, answer.kind) == ("p", NeighborRole.ACCEPT, LinkKind.NEAR)
    assert answer.links == 5
    assert NeighborUp("p", LinkKind.NEAR) in effects


def test_need_is_met_beyond_a_but_for_few() -> None:
    """E10, E13: a peer that has fewer than C_rand links gets a random one, even from a full view,
    but only few do: need can't be checked."""
    member = full()
    for n in range(50):
        effects = member.receive(f"poor{n}", request(links=3))
        effects += member.handle(ev.RttMeasured(f"poor{n}", 0.1))
    assert len(member.active) == member.params.active_size + 2
    assert sent(effects, Neighbor) == []
    link = member.machine.membership.active.get("poor0")
    assert link is not None
    assert link.kind is LinkKind.RANDOM


def test_nearness_evicts_the_farthest_near_neighbour() -> None:
    """E10: closer by the factor alpha: that neighbour goes, is notified and remembered, and the
    nearer one comes in its place as a near link."""
    member = full()
    member.handle(ev.RttMeasured("n5", 0.4))
    member.receive("p", request(7))
    effects = member.handle(ev.RttMeasured("p", 0.04))
    assert ("n5", Disconnect()) in sent(effects)
    assert "n5" in member.passive
    assert member.active == {"n0", "n1", "n2", "n3", "n4", "n6", "p"}
    link = member.machine.membership.active.get("p")
    assert link is not None
    assert link.kind is LinkKind.NEAR
    assert effects.index(NeighborDown("n5", DownReason.EVICTED)) < effects.index(
        NeighborUp("p", LinkKind.NEAR)
    )


@pytest.mark.parametrize(
    ("rtt", "near_rtt", "changed"),
    [
        (0.06, 0.1, {}),  # Nearer, but not by alpha.
        (0.001, 0.004, {}),  # By alpha, but too little to count.
        (0.001, 0.1, {"near_links": 0, "active_size": 7}),  # Nobody is here for nearness.
        (None, 0.1, {}),  # Not measurable.
    ],
)
def test_nearness_has_to_be_worth_it(rtt: Any, near_rtt: float, changed: dict[str, Any]) -> None:
    """E10: alpha, the least gain, and the random links that proximity never costs; who is refused
    is notified, and counted."""
    member = full(LinkKind.RANDOM if changed else LinkKind.NEAR, near_rtt, **changed)
    before = member.active
    effects = member.receive("p", request(7))
    effects += member.handle(ev.RttMeasured("p", rtt))
    assert member.active == before
    assert ("p", Disconnect()) in sent(effects)
    assert drops(effects) == [DropReason.VIEW_FULL]


def test_who_needs_its_links_is_not_evicted() -> None:
    """E10: "if it has enough active links"."""
    member = full()
    for n in range(4, 7):
        member.receive(f"n{n}", request(links=2))
    before = member.active
    member.receive("p", request(7))
    member.handle(ev.RttMeasured("p", 0.01))
    assert member.active == before


def test_measurements_under_way_are_bounded() -> None:
    """E10: a flood of requests makes no flood of measurements."""
    member = full()
    effects = [e for n in range(100) for e in member.receive(f"p{n}", request(7))]
    assert sum(isinstance(effect, MeasureRtt) for effect in effects) == MAX_MEASURING
    assert len(sent(effects, Disconnect)) == 100 - MAX_MEASURING


# Both ends


def test_a_neighbour_that_asks_again_is_granted_again() -> None:
    """E12: it may have lost our answer; the link is one link all the same."""
    member = Member("a")
    effects = member.receive("a", request(2))
    assert [message.role for _, message in sent(effects)] == [NeighborRole.ACCEPT]
    assert not any(isinstance(effect, NeighborUp) for effect in effects)


def test_an_answer_belongs_to_one_request() -> None:
    """E09: the same again makes no link."""
    member = grown("a", "b", "c", "d", "e", "f", passive=["p"])
    member.handle(ev.Connected("p"))
    assert requests(member.wait(2.5)) == ["p"]
    assert drops(member.receive("x", accept())) == [DropReason.UNSOLICITED]
    member.receive("p", accept())
    assert "p" in member.active
    member.receive("p", Disconnect())
    assert drops(member.receive("p", accept())) == [DropReason.UNSOLICITED]


def test_a_lost_neighbour_is_asked_again_with_a_join() -> None:
    """E02."""
    member = Member("a", "b", "c", "d")
    member.handle(ev.PeerDown("b"))
    assert dials(answered(member, 20)) == ["b"]
    assert sent(member.handle(ev.Connected("b"))) == [("b", Join("me", 0))]
    member.receive("b", accept())
    assert "b" in member.active


def test_accepted_links_are_of_the_kind_that_the_other_side_says() -> None:
    """E10: both ends agree what a link is for."""
    member = grown("a", "b", "c", "d", passive=["p"])
    member.handle(ev.Connected("p"))
    effects = member.wait(3)
    ((_, asked),) = [(p, m) for p, m in sent(effects, Neighbor) if p == "p"]
    assert asked.kind is LinkKind.NEAR
    member.receive("p", accept(kind=LinkKind.RANDOM))
    link = member.machine.membership.active.get("p")
    assert link is not None
    assert link.kind is LinkKind.RANDOM
