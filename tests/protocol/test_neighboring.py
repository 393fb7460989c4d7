"""Asking for links, granting and refusing them (E09, E10, E12, E17)."""

from __future__ import annotations

from typing import Any

from episub_router.protocol import events as ev
from episub_router.protocol.effects import MeasureRtt
from episub_router.protocol.messages import Disconnect, Join, LinkKind, Neighbor, NeighborRole
from tests.protocol.helpers import Member, accept, dials, params, request, sent


def requests(effects: list) -> list:  # type: ignore[type-arg]
    """Peers that are sent a NEIGHBOR request."""
    return [
        peer for peer, message in sent(effects, Neighbor) if message.role is NeighborRole.REQUEST
    ]


def test_request_is_over_when_the_peer_is_a_neighbour_already() -> None:
    """E09, E17: a peer that came in by its JOIN while it was being asked takes up one link, not
    two: the other one that is missing is asked for elsewhere."""
    member = Member("a", "b", "c", "d", "e", passive=["p"])
    assert dials(member.wait(12)) == ["p"]
    member.receive("a", Join("p", 0))
    assert requests(member.handle(ev.Connected("p"))) == ["p"]
    assert member.active == set("abcdep")
    member.receive("p", accept())
    member.handle(ev.ContactsFound(("q",)))
    assert dials(member.handle(ev.DialFailed("elsewhere"))) == ["q"]


def test_who_ended_a_link_is_not_asked_for_it_at_once() -> None:
    """E09, E16, E17: the peer has just said that it has too many links; though it is the one
    whose RTT is known, others are asked first."""
    member = Member("a", "b", "c", "d", "e", "f", "g", passive=["p"])
    member.handle(ev.RttMeasured("a", 0.01))
    effects = member.receive("a", Disconnect())
    assert "a" in member.passive
    assert dials(effects) == ["p"]
    assert requests(effects) == []
    effects = member.handle(ev.DialFailed("p"))
    assert requests(effects) == []
    assert set(requests(member.wait(3 * member.params.refused_backoff))) == {"a"}


def full(kind: LinkKind = LinkKind.NEAR, rtt: float = 0.1, **changed: Any) -> Member:
    """A member with A links, C_rand of them random and the others of the given kind, to peers
    at `rtt` seconds that have links to spare."""
    member = Member(membership=params(**changed))
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
