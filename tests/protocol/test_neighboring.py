"""Asking for links, granting and refusing them (E09, E10, E12, E17)."""

from __future__ import annotations

from episub_router.protocol import events as ev
from episub_router.protocol.messages import Disconnect, Join, Neighbor, NeighborRole
from tests.protocol.helpers import Member, accept, dials, sent


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
