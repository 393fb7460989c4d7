"""Upkeep of a view that stays as it is gets rarer, and is as usual again after each change."""

from __future__ import annotations

from collections import Counter, deque
from random import Random
from typing import Any

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import DownReason, MeasureRtt, NeighborDown
from episub_router.protocol.messages import (
    Disconnect,
    GetNodes,
    GetTopics,
    Neighbor,
    NeighborRole,
    Shuffle,
    ShuffleReply,
    Topics,
)
from episub_router.util.trickle import Trickle
from tests.protocol.helpers import Member, sent

NEIGHBORS = [f"n{n}" for n in range(8)]
PASSIVE = [f"p{n}" for n in range(20)]


def at_rest() -> Member:
    """A full view, contacts and passive peers, all of which answer within 2 ms (see `let_pass`)."""
    member = Member(*NEIGHBORS, passive=PASSIVE)
    member.handle(ev.ContactsFound(("p0",)))
    let_pass(member, 30)
    return member


def let_pass(member: Member, seconds: int, silent: str = "", delay: int = 0) -> Counter[str]:
    """What upkeep does in that time, while all peers but `silent` answer after `delay` seconds;
    what they would answer later doesn't come."""
    done: Counter[str] = Counter()
    answers: deque[list[tuple[str, object]]] = deque([[] for _ in range(delay)])
    for _ in range(seconds):
        answers.append([])
        for effect in member.wait(1):
            if isinstance(effect, MeasureRtt):
                done["ping"] += 1
                member.handle(ev.RttMeasured(effect.peer, 0.002))
            elif isinstance(effect, NeighborDown) and effect.reason is DownReason.FAILED:
                done["failed"] += 1
            for peer, message in sent([effect]):
                if peer != silent:
                    answers[-1].append((peer, message))
        for peer, message in answers.popleft():
            _answer(member, peer, message, done)
        for peer in PASSIVE:
            member.handle(ev.Connected(peer))
    return done


def _answer(member: Member, peer: str, message: object, done: Counter[str]) -> None:
    if isinstance(message, Neighbor) and message.role is NeighborRole.QUERY:
        done["query"] += 1
        member.receive(peer, Neighbor(NeighborRole.LIST, 8, message.kind, random_links=4))
    elif isinstance(message, Neighbor) and message.role is NeighborRole.REQUEST:
        done["request"] += 1
        member.receive(peer, Disconnect())
    elif isinstance(message, Shuffle):
        done["shuffle"] += 1
        member.receive("p1", ShuffleReply(()))
    elif isinstance(message, GetTopics):
        done["probe"] += 1
        for effect in member.receive(peer, Topics(("t",))):
            if isinstance(effect, MeasureRtt):
                member.handle(ev.RttMeasured(peer, 0.002))
    elif isinstance(message, GetNodes):
        done["contact"] += 1


def test_a_view_that_stays_needs_little_upkeep() -> None:
    """Idle hosts cost next to nothing: each kind of upkeep gets rarer."""
    member = at_rest()
    let_pass(member, 720)
    hour = let_pass(member, 3600)
    assert member.active == set(NEIGHBORS)
    assert hour["failed"] == 0
    assert 0 < hour["query"] <= len(NEIGHBORS) * 3600 / 15
    assert 0 < hour["shuffle"] <= 3600 / member.params.shuffle_interval / 10
    assert 0 < hour["ping"] <= 8
    assert hour["probe"] == 0, "on a LAN nobody is nearer"
    assert 0 < hour["contact"] <= 8, "three rounds; each ring neighbour that refuses is asked, too"


@pytest.mark.parametrize("links", [6, 7])
def test_a_search_in_vain_gets_rare_however_many_links_are_missing(links: int) -> None:
    """E17: of those beyond the C_rand."""
    member = Member(*NEIGHBORS[:links], passive=PASSIVE)
    let_pass(member, 600)
    assert 1 <= let_pass(member, 600)["request"] <= 8


def test_links_that_the_system_probes_need_hardly_a_query() -> None:
    """E15: what is gone or cut off is noticed without; a process that has stopped is in time."""
    member = at_rest()
    for peer in NEIGHBORS:
        member.handle(ev.Connected(peer, probed=True))
    let_pass(member, 720)
    hour = let_pass(member, 3600)
    assert member.active == set(NEIGHBORS)
    assert 0 < hour["query"] <= len(NEIGHBORS) * 3600 / 1200
    assert let_pass(member, 1260, silent="n3")["failed"] == 1
    assert "n3" not in member.active


def test_a_neighbour_of_which_nothing_comes_is_asked_at_once() -> None:
    """E15: however calm the view is, what the driver notices has it queried, and dropped unless it
    answers."""
    for silent, left in (("", 8), ("n3", 7)):
        member = at_rest()
        for peer in NEIGHBORS:
            member.handle(ev.Connected(peer, probed=True))
        let_pass(member, 720)
        asked = member.handle(ev.Silent("n3"))
        assert [peer for peer, _ in sent(asked, Neighbor)] == ["n3"]
        if not silent:
            member.receive("n3", Neighbor(NeighborRole.LIST, 8, random_links=4))
        let_pass(member, 5, silent=silent)
        assert len(member.active) == left


def test_a_link_that_fails_brings_usual_upkeep_back() -> None:
    """What has become rare is as frequent as in a new view."""
    member = at_rest()
    let_pass(member, 3600)
    member.handle(ev.PeerDown("n0"))
    changed = let_pass(member, 60)
    assert changed["shuffle"] >= 1
    assert changed["ping"] >= 2
    assert changed["request"] >= 1


def test_a_neighbour_that_stops_in_a_calm_view_is_noticed() -> None:
    """E15: as soon as in any other, while nothing is sent."""
    member = at_rest()
    let_pass(member, 1800)
    assert let_pass(member, 40, silent="n3")["failed"] == 1
    assert "n3" not in member.active


def test_a_lost_query_ends_no_link_in_a_calm_view() -> None:
    """E12: nor do two."""
    member = at_rest()
    let_pass(member, 1800)
    for _ in range(10):
        member.receive("n3", Neighbor(NeighborRole.LIST, 8, random_links=4))
        while not let_pass(member, 1, silent="n3")["query"]:
            pass
        assert let_pass(member, 6, silent="n3")["failed"] == 0
        assert let_pass(member, 20)["failed"] == 0
    assert member.active == set(NEIGHBORS)


@pytest.mark.parametrize("rest", [300, 560, 900])
@pytest.mark.parametrize(
    ("seconds", "trouble"), [(10, {"silent": "n1"}), (18, {"delay": 7})], ids=["loss", "delay"]
)
def test_a_change_after_a_long_rest_has_nobody_suspected_unasked(
    rest: int, seconds: int, trouble: dict[str, Any]
) -> None:
    """E15: once usual periods are back, all have been silent for long, as nothing was asked of
    them: a query that is lost, or a delay of them all, ends no link."""
    for moment in range(0, 60, 14):
        member = at_rest()
        for peer in NEIGHBORS:
            member.handle(ev.Connected(peer, probed=True))
        let_pass(member, rest + moment)
        member.receive("n0", Disconnect(alive=False))
        assert let_pass(member, seconds, **trouble)["failed"] == 0
        assert let_pass(member, 60)["failed"] == 0
        assert set(NEIGHBORS[1:]) <= member.active


def test_intervals_double_up_to_the_longest_and_rounds_come_in_their_second_halves() -> None:
    """RFC 6206, section 4.2."""
    timer = Trickle(Random(1), 10.0, 80.0)
    due = timer.start(100.0)
    begin = 100.0
    for interval in (10, 20, 40, 80, 80):
        assert begin + interval / 2 <= due <= begin + interval
        begin, due = begin + interval, timer.next(due)
    assert 1005 <= timer.start(1000.0) <= 1010
