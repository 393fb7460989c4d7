"""Leaving, and the news of it (E14)."""

from __future__ import annotations

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import DropReason
from episub_router.protocol.hyparview import LEAVE_TTL
from episub_router.protocol.messages import (
    Disconnect,
    GetNodes,
    GetTopics,
    Gossip,
    Join,
    Leave,
    Topics,
)
from episub_router.protocol.types import NEVER
from tests.protocol.helpers import ME, Member, dials, drops, sent


@pytest.mark.parametrize(
    ("proof", "farewell"),
    [(b"", Disconnect(alive=False)), (b"signed", Leave(ME, 3, b"signed"))],
)
def test_goodbye_is_said_to_all_neighbours_and_all_is_forgotten(
    proof: bytes, farewell: object
) -> None:
    """E14: LEAVE where it can be proved, else DISCONNECT; then nothing is waited for."""
    member = Member("a", "b", passive=["p", "q"])
    member.handle(ev.Publish("m", "payload"))
    effects = member.handle(ev.LeaveOverlay(proof))
    assert sent(effects) == [("a", farewell), ("b", farewell)]
    assert member.active == member.passive == set()
    assert not member.machine.broadcast.eager
    assert not member.machine.broadcast.lazy
    assert member.machine.next_deadline() == NEVER
    assert not member.machine.membership.joined


def test_who_left_takes_no_part() -> None:
    """E14: whatever comes afterwards is counted and changes nothing, dials that end included."""
    member = Member("a", passive=["p", "q"])
    dialled = dials(member.wait(6))
    assert dialled
    member.handle(ev.LeaveOverlay())
    for peer in dialled:
        assert member.handle(ev.Connected(peer)) == []
    for message in (GetNodes(), Join("x", 0), Gossip("m", 1, ""), Leave("x", 1, b"1")):
        assert drops(member.receive("a", message)) == [DropReason.NOT_JOINED]
    for event in (ev.PeerDown("a"), ev.DialFailed("p"), ev.RttMeasured("a", 0.1)):
        assert member.handle(event) == []
    assert member.machine.next_deadline() == NEVER
    assert member.active == member.passive == set()


@pytest.mark.parametrize(("alive", "left"), [(True, {"a"}), (False, set())])
def test_disconnect_ends_a_link_and_may_end_a_membership(alive: bool, left: set[str]) -> None:
    """E09, E14: a node that leaves is forgotten, a living one is kept in mind."""
    member = Member("a", "b")
    member.receive("a", Disconnect(alive=alive))
    assert (member.active, member.passive) == ({"b"}, left)


def test_leave_removes_its_source_from_both_views() -> None:
    """E14: from the active view and from the passive one; a lost link is replaced."""
    member = Member(*"abcdefgh", passive=["p"])
    effects = member.receive("a", Leave("a", 0, b"1"))
    assert "a" not in member.active | member.passive
    assert dials(effects) == ["p"]
    member.receive("b", Leave("p", 0, b"2"))
    assert "p" not in member.passive


def test_leave_goes_on_while_it_is_news() -> None:
    """E14: to all neighbours but the sender, with TTL-1 and never below zero."""
    member = Member("a", "b", "c", passive=["p"])
    assert sent(member.receive("a", Leave("p", 0, b"1"))) == [
        ("b", Leave("p", 0, b"1")),
        ("c", Leave("p", 0, b"1")),
    ]
    assert sent(member.receive("a", Leave("stranger", 2, b"2"))) == []


def test_leaves_that_cannot_be() -> None:
    """E14: nobody else can leave for us, TTLs have their range."""
    member = Member("a", "b", passive=["x"])
    effects = member.receive("a", Leave(ME, 3, b"1"))
    assert drops(effects) == [DropReason.ABOUT_SELF]
    ((_, passed_on),) = sent(member.receive("a", Leave("x", 10**6, b"1")))
    assert passed_on.ttl == LEAVE_TTL - 1


def test_topics_are_told_and_heeded() -> None:
    """E21: GETTOPICS is answered by members; peers outside the topic leave the passive view."""
    member = Member("a", passive=["p", "q"])
    assert sent(member.receive("x", GetTopics())) == [("x", Topics(("t",)))]
    member.receive("p", Topics(("other",)))
    member.receive("q", Topics(("other", "t")))
    assert member.passive == {"q"}
