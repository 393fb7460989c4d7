"""Silent and one-sided links (E11, E12, E15)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import Deliver, DownReason, DropReason, NeighborDown
from episub_router.protocol.messages import (
    Disconnect,
    Gossip,
    Graft,
    IHave,
    LinkKind,
    MessageSummary,
    Neighbor,
    NeighborRole,
    Prune,
    Root,
    TreeRoot,
)
from tests.protocol.helpers import Member, drops, ihave, sent

QUERY = Neighbor(NeighborRole.QUERY, 5, LinkKind.RANDOM, random_links=5)


def roles(effects: list) -> list:  # type: ignore[type-arg]
    return [(peer, message.role) for peer, message in sent(effects, Neighbor)]


def test_a_query_is_answered_with_our_neighbours() -> None:
    """E11: NEIGHBOR's second role: a neighbour learns the other neighbours, not itself."""
    member = Member("a", "b", "c")
    ((peer, answer),) = sent(member.receive("a", QUERY))
    assert (peer, answer.role, answer.links) == ("a", NeighborRole.LIST, 3)
    assert set(answer.peers) == {"b", "c"}


def test_a_query_for_numbers_alone_is_answered_with_those() -> None:
    """E11: and what is known of the neighbour's neighbours stays."""
    member = Member("a", "b", "c")
    ((_, answer),) = sent(member.receive("a", replace(QUERY, numbers_only=True)))
    assert answer == Neighbor(
        NeighborRole.LIST, 3, LinkKind.RANDOM, random_links=3, numbers_only=True
    )
    link = member.machine.membership.active.get("a")
    assert link is not None
    member.receive("a", Neighbor(NeighborRole.LIST, 2, LinkKind.RANDOM, ("x", "y")))
    member.wait(1)
    member.receive("a", replace(answer, links=4))
    assert (link.links, link.peers, link.answered_at) == (4, ("x", "y"), member.now)


def test_a_list_fills_spare_passive_room_and_no_more() -> None:
    """E11: a neighbour's list adds candidates, and replaces none."""
    member = Member("a", passive=[f"p{n}" for n in range(46)])
    before = member.passive
    told = ("me", "a", *(f"x{n}" for n in range(10)))
    member.receive("a", Neighbor(NeighborRole.LIST, 12, LinkKind.RANDOM, told))
    assert member.passive > before
    assert len(member.passive) == member.params.passive_size
    assert not member.passive & {"me", "a"}


def test_a_list_from_a_stranger_is_refused() -> None:
    """E11: only a neighbour's list is taken."""
    member = Member("a")
    effects = member.receive("x", Neighbor(NeighborRole.LIST, 2, LinkKind.RANDOM, ("p",)))
    assert drops(effects) == [DropReason.UNSOLICITED]
    assert member.passive == set()


def test_the_driver_may_have_a_neighbour_queried() -> None:
    """E11, E15: to learn how far it has read, which needs no list; nothing follows if it doesn't
    answer."""
    member = Member("a")
    ((peer, query),) = sent(member.handle(ev.NeighborQueried("a")))
    assert (peer, query.role, query.numbers_only) == ("a", NeighborRole.QUERY, True)
    assert roles(member.handle(ev.NeighborQueried("stranger"))) == []
    member.wait(4.5)
    assert member.active == {"a"}


def test_silent_neighbours_are_queried_and_then_given_up() -> None:
    """E12, E15: silence is asked about, an answer keeps the link, none ends it and replaces it."""
    member = Member("answers", "silent")
    queries = 0
    while "silent" in member.active:
        effects = member.wait(1)
        if ("answers", NeighborRole.QUERY) in roles(effects):
            member.receive("answers", Neighbor(NeighborRole.LIST, 1))
        queries += ("silent", NeighborRole.QUERY) in roles(effects)
    assert queries == 3
    assert NeighborDown("silent", DownReason.FAILED, silent_since=0.0) in effects
    assert member.active == {"answers"}
    assert ("silent", Disconnect()) in sent(effects)
    assert member.now <= 40


@pytest.mark.parametrize(
    "message",
    [
        Gossip("m", 1, "payload"),
        IHave((MessageSummary("m", 1),)),
        Prune(),
        Graft(),
        Neighbor(NeighborRole.LIST, 1),
        QUERY,
    ],
)
def test_whatever_only_a_neighbour_sends_keeps_the_link(message: object) -> None:
    """E12, E15: a link that is used is neither queried nor ended."""
    member = Member("a")
    member.receive("a", Gossip("m", 1, "payload"))
    for _ in range(20):
        member.receive("a", message)  # type: ignore[arg-type]
        assert ("a", NeighborRole.QUERY) not in roles(member.wait(1.5))
    assert member.active == {"a"}


def test_payloads_in_validation_keep_the_link() -> None:
    """E12, E15: with a driver that validates, GOSSIP shows up as arrived payloads."""
    member = Member("a")
    for n in range(40):
        member.handle(ev.PayloadArrived("a", n, 1))
        assert roles(member.wait(1.5)) == []
    assert member.active == {"a"}


def test_one_sided_link_becomes_two_sided_where_there_is_room() -> None:
    """E12: a peer that wrongly believes to be our neighbour asks, and is from then on."""
    member = Member("a")
    effects = member.receive("x", QUERY)
    assert roles(effects) == [("x", NeighborRole.ACCEPT)]
    assert member.active == {"a", "x"}


def test_one_sided_link_ends_where_there_is_none() -> None:
    """E12: a full node tells it that it is no neighbour."""
    member = Member(*(f"n{n}" for n in range(8)))
    effects = member.receive("x", QUERY)
    assert sent(effects) == [("x", Disconnect())]
    assert drops(effects) == [DropReason.NOT_NEIGHBOR]


def test_strangers_that_send_like_neighbours_are_told_now_and_then() -> None:
    """E12: what a stranger pushes is delivered all the same, and changes no tree; it is notified
    DISCONNECT, though not for each message."""
    member = Member("a")
    told = 0
    for n in range(100):
        effects = member.receive("x", Gossip(n, 1, "payload"))
        assert any(isinstance(effect, Deliver) for effect in effects)
        assert [peer for peer, _ in sent(effects, Gossip)] == ["a"]
        told += sent(effects).count(("x", Disconnect()))
        member.wait(0.1)
    assert 8 <= told <= 11
    assert set(member.machine.broadcast.eager) == {"a"}
    assert not member.machine.broadcast.lazy


@pytest.mark.parametrize(
    "message", [ihave("m"), Graft(("m",)), Prune(), Root((TreeRoot("s", 1, 0.0),))]
)
def test_control_messages_of_strangers_change_nothing(message: Any) -> None:
    """E12, E34, E36: they get DISCONNECT for an answer."""
    member = Member("a")
    member.handle(ev.Publish("m", "payload"))
    effects = member.receive("x", message)
    assert sent(effects) == [("x", Disconnect())]
    assert drops(effects) == [DropReason.NOT_NEIGHBOR]
    assert set(member.machine.broadcast.eager) == {"a"}
    assert member.machine.broadcast.missing == 0


def suspicious(member: Member, announcer: str, id: str = "m") -> list:  # type: ignore[type-arg]
    """`id` is announced to `member` and doesn't come; the effects of asking for it."""
    member.receive(announcer, ihave(id))
    return member.wait(0.5)


def test_a_parent_is_queried_when_others_announce_what_it_should_have_pushed() -> None:
    """E15: with traffic, a silent neighbour fails within seconds."""
    member = Member("parent", "other")
    member.receive("parent", Gossip("first", 1, "payload"))
    member.receive("other", Prune())
    member.wait(3)
    effects = suspicious(member, "other")
    assert [peer for peer, _ in sent(effects, Graft)] == ["other"]
    assert ("parent", NeighborRole.QUERY) in roles(effects)
    # The announcer has just sent something.
    assert ("other", NeighborRole.QUERY) not in roles(effects)
    since = member.now
    link = member.machine.membership.active.get("parent")
    assert link is not None
    silent_since = link.last_activity
    while "parent" in member.active:
        member.receive("other", QUERY)
        effects = member.wait(0.5)
    assert NeighborDown("parent", DownReason.FAILED, silent_since) in effects
    assert member.now - since <= 5
    assert member.active == {"other"}


def test_a_suspected_neighbour_that_answers_stays() -> None:
    """E15: any sign of life is enough, and it can be suspected again."""
    member = Member("parent", "other")
    for number in range(3):
        member.receive("parent", Gossip(f"first {number}", 1, "payload"))
        member.receive("other", Prune())
        member.wait(3)
        effects = suspicious(member, "other", f"second {number}")
        assert ("parent", NeighborRole.QUERY) in roles(effects)
        member.receive("parent", Neighbor(NeighborRole.LIST, 1))
        member.receive("parent", Gossip(f"second {number}", 1, "payload"))
        member.receive("other", QUERY)
        member.wait(6)
    assert member.active == {"parent", "other"}


def test_an_announcer_that_does_not_answer_its_graft_is_queried() -> None:
    """E15: a peer that announces a message and then falls silent is asked first, and suspected."""
    member = Member("liar", "other")
    effects = suspicious(member, "liar")
    assert ("liar", NeighborRole.QUERY) not in roles(effects)
    member.receive("other", QUERY)
    effects = member.wait(1.5)
    assert ("liar", NeighborRole.QUERY) in roles(effects)
    member.receive("other", QUERY)
    for _ in range(10):
        member.wait(0.5)
        member.receive("other", QUERY)
    assert member.active == {"other"}
