"""Joining, seen from the node that joins and from those it meets (E03-E08)."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import DropReason, Effect
from episub_router.protocol.hyparview import CONTACTS_ASKED
from episub_router.protocol.hyparview.join import (
    JOIN_LIFETIME,
    JOIN_TIMEOUT,
    MAX_CONTACTS,
    NODES_TIMEOUT,
)
from episub_router.protocol.messages import (
    MAX_NODES,
    Disconnect,
    ForwardJoin,
    GetNodes,
    Join,
    Neighbor,
    NeighborRole,
    Nodes,
)
from tests.protocol.helpers import ME, Member, accept, dials, drops, sent, specified

PEERS = tuple(f"p{n}" for n in range(12))


def asked(*contacts: str, **changed: Any) -> tuple[Member, list[Effect]]:
    """A member without rings that has just sent GETNODES to its contacts."""
    member = Member(membership=specified(**changed))
    for contact in contacts:
        member.handle(ev.Connected(contact))
    effects = member.handle(ev.JoinOverlay(contacts))
    assert sent(effects) == [(contact, GetNodes()) for contact, _ in sent(effects)]
    return member, effects


def joining(**changed: Any) -> Member:
    """A member whose C_rand JOINs are on their way."""
    member, _ = asked("c1", **changed)
    effects = member.reach(member.receive("c1", Nodes(PEERS, 6)))
    assert len(sent(effects, Join)) == member.params.random_links
    return member


# The node that joins


def test_a_few_random_contacts_are_asked_for_nodes() -> None:
    """E02, E03: eight contacts of many, and not always the same eight."""
    contacts = tuple(f"c{n}" for n in range(10))
    chosen = []
    for seed in range(5):
        member = Member(seed=seed)
        chosen.append(frozenset(dials(member.handle(ev.JoinOverlay(contacts)))))
        assert len(chosen[-1]) == CONTACTS_ASKED
    assert len(set(chosen)) > 1


def test_the_contacts_known_longest_and_the_newest_are_kept() -> None:
    """E02: a peer that announces itself a thousand times over doesn't push the bootstrap list
    out. Contacts are asked a few at a time, so all that are kept show up in the end."""
    old = {f"old{n}" for n in range(MAX_CONTACTS // 2)}
    new = {f"x{n}" for n in range(1000)}
    asked: set[str] = set()
    for seed in range(200):
        member = Member("n", seed=seed)
        member.handle(ev.ContactsFound(tuple(sorted(old))))
        member.handle(ev.ContactsFound(tuple(f"x{n}" for n in range(1000))))
        asked.update(dials(member.handle(ev.JoinOverlay())))
    assert old < asked
    assert asked & new == {f"x{n}" for n in range(1000 - MAX_CONTACTS // 2, 1000)}


def test_joins_start_when_all_contacts_have_answered() -> None:
    """E03, E04: the passive view is fresh before the first JOIN; then C_rand JOINs go to nodes of
    it, with the full TTL: to those that are connected, since a dial costs more than the rest."""
    member, effects = asked("c1", "c2")
    assert {peer for peer, _ in sent(effects)} == {"c1", "c2"}
    assert member.receive("c1", Nodes(PEERS[:6], 6)) == []
    assert member.passive == {"c1", *PEERS[:6]}
    effects = member.reach(member.receive("c2", Nodes(PEERS[6:], 6)))
    assert member.passive == {"c1", "c2", *PEERS}
    joins = sent(effects, Join)
    assert Counter(peer for peer, _ in joins) == {"c1": 2, "c2": 2}
    assert {message for _, message in joins} == {Join(ME, 6)}


def test_silent_and_unreachable_contacts_do_not_hold_joining_up() -> None:
    """E03: what one contact gave is enough when the others fail or stay silent."""
    member = Member(membership=specified())
    member.handle(ev.Connected("c1"))
    member.handle(ev.Connected("c2"))
    member.handle(ev.JoinOverlay(("c1", "c2", "c3")))
    member.receive("c1", Nodes(PEERS, 6))
    assert member.handle(ev.DialFailed("c3")) == []
    assert not sent(member.reach(member.wait(NODES_TIMEOUT / 2)), Join)
    effects = member.reach(member.wait(NODES_TIMEOUT))
    assert len(sent(effects, Join)) == member.params.random_links


def test_only_asked_contacts_may_answer_and_only_once() -> None:
    """E03: NODES from others, or again, are counted and change nothing."""
    member, _ = asked("c1", "c2")
    assert drops(member.receive("stranger", Nodes(("x",), 6))) == [DropReason.UNSOLICITED]
    member.receive("c1", Nodes(("a",), 6))
    assert drops(member.receive("c1", Nodes(("y",), 6))) == [DropReason.UNSOLICITED]
    assert member.passive == {"c1", "a"}


def test_an_answer_is_cut_to_size_and_never_contains_us() -> None:
    """E03: a contact can't fill the passive view alone, nor with us."""
    member, _ = asked("c1", "c2")
    member.receive("c1", Nodes((ME, *(f"x{n}" for n in range(1000))), 6))
    assert len(member.passive) == MAX_NODES  # The contact, and all but us.
    assert ME not in member.passive


def test_the_suggested_ttl_only_shortens_walks() -> None:
    """E03: NODES carries a TTL; ours is the bound."""
    for suggested, used in [(100, 6), (2, 2), (-3, 0)]:
        member, _ = asked("c1")
        effects = member.reach(member.receive("c1", Nodes(PEERS, suggested)))
        assert {message.ttl for _, message in sent(effects, Join)} == {used}


def test_a_fruitless_join_goes_on_elsewhere_with_a_lower_ttl() -> None:
    """E08: each time-out takes one off the TTL and starts at other nodes while there are any, down
    to TTL 0. Then it rests until the overlay is needed again."""
    member, _ = asked("c1")
    rounds: list[list[tuple[Any, Any]]] = []
    effects = member.reach(member.receive("c1", Nodes(PEERS, 6)))
    while member.machine.membership.joining:
        if joins := sent(effects, Join):
            rounds.append(joins)
        effects = member.reach(member.wait(1))
    assert [{message.ttl for _, message in joins} for joins in rounds] == [
        {6}, {5}, {4}, {3}, {2}, {1}, {0},
    ]  # fmt: skip
    first, second, third, *_ = [{peer for peer, _ in joins} for joins in rounds]
    assert first == {"c1"}
    assert not first & second
    assert len(second | third) > member.params.random_links


def test_time_outs_follow_the_time_that_dials_take() -> None:
    """E08: where a dial takes seconds, the one at the end of the walk does too."""
    member, _ = asked("c1", near_links=0)
    member.receive("c1", Nodes(PEERS, 6))
    starts: list[Any] = []
    while not starts:
        starts = dials(member.wait(1))
    member.wait(4)
    for peer in starts:
        member.handle(ev.Connected(peer))
    rounds = [sent(member.reach(member.wait(1)), Join) for _ in range(30)]
    times = [second for second, joins in enumerate(rounds) if joins]
    assert min(later - earlier for earlier, later in pairwise(times)) > JOIN_TIMEOUT + 2


def test_joining_ends_with_c_rand_links_and_growing_follows() -> None:
    """E04, E09: JOINs bring C_rand links; the rest of A is asked for from the passive view."""
    member = joining()
    for peer in "abc":
        effects = member.receive(peer, accept())
        assert sent(effects, Neighbor) == []
    assert member.machine.membership.joining
    effects = member.reach(member.receive("d", accept()))
    assert not member.machine.membership.joining
    assert sent(effects, Neighbor) == []
    effects = member.reach(member.wait(10))
    roles = [message.role for _, message in sent(effects, Neighbor)]
    assert roles.count(NeighborRole.REQUEST) >= member.params.near_links


def test_acceptances_bring_c_rand_links_and_no_more() -> None:
    """E06: whoever has seen our JOINs on their way and answers; what exceeds that is ended, so that
    the other side doesn't keep half a link."""
    member = joining()
    for n in range(20):
        effects = member.receive(f"x{n}", accept())
    assert len(member.active) == member.params.random_links
    assert sent(effects) == [("x19", Disconnect())]
    assert drops(effects) == [DropReason.UNSOLICITED]


def test_an_acceptance_without_a_join_is_undone() -> None:
    """E06: before one is sent, and half a minute after the last one."""
    member, _ = asked("c1")
    assert drops(member.receive("x", accept())) == [DropReason.UNSOLICITED]
    member = joining(near_links=0)
    for n in range(4):
        member.link(f"n{n}")
    member.receive("n0", Disconnect(alive=False))
    member.wait(JOIN_LIFETIME)
    assert drops(member.receive("x", accept())) == [DropReason.UNSOLICITED]
    assert "x" not in member.active


def test_a_node_that_is_alone_joins_again() -> None:
    """E03, E17: a node that lost all links, and has nobody left to ask, asks its contacts."""
    member, _ = asked("c1")
    member.receive("c1", Nodes((), 6))
    member.receive("c1", accept())
    assert member.active == {"c1"}
    member.handle(ev.PeerDown("c1"))
    assert member.active == set()
    assert "c1" in dials(member.wait(60))


# The nodes that it meets


@pytest.mark.parametrize(("count", "given"), [(0, 8), (4, 4), (9, 8)])
def test_getnodes_is_answered_from_both_views(count: int, given: int) -> None:
    """E03: active and passive peers, never the asker, never more than the bound."""
    member = Member("a", "b", "c", passive=PEERS, membership=specified())
    ((peer, nodes),) = sent(member.receive("p0", GetNodes(count)))
    assert peer == "p0"
    assert len({"a", "b", "c"} & set(nodes.peers)) == min(3, given // 2)
    assert set(nodes.peers) <= {"a", "b", "c", *PEERS[1:]}
    assert len(nodes.peers) == len(set(nodes.peers)) == given
    assert nodes.ttl == member.params.join_ttl


@pytest.mark.parametrize(("neighbors", "ttl"), [(3, 5), (7, 0)])
def test_join_is_accepted_where_there_is_room_or_the_walk_ends(neighbors: int, ttl: int) -> None:
    """E05, E06, E07: Q connects to P, adds it, says NEIGHBOR, and tells one random neighbour."""
    member = Member(*PEERS[:neighbors], membership=specified())
    assert dials(member.receive("p0", Join("joiner", ttl))) == ["joiner"]
    assert "joiner" not in member.active
    effects = member.handle(ev.Connected("joiner"))
    assert member.active == {"joiner", *PEERS[:neighbors]}
    (granted, (walker, news)) = sent(effects, Neighbor, ForwardJoin)
    assert granted[0] == "joiner"
    assert granted[1].role is NeighborRole.ACCEPT
    assert news == ForwardJoin("joiner", member.params.join_ttl)
    assert walker in PEERS[:neighbors]


@pytest.mark.parametrize(("ttl", "left"), [(5, 4), (10**6, 5)])
def test_join_walks_on_where_the_view_is_full(ttl: int, left: int) -> None:
    """E06: TTL-1, from ours at most, to one random neighbour that isn't the sender; nobody is
    kicked out, and no connection is opened by those that only pass it on."""
    walkers = set()
    for seed in range(10):
        member = Member(*PEERS[:7], seed=seed, membership=specified())
        effects = member.receive("p0", Join("joiner", ttl))
        ((walker, message),) = sent(effects)
        assert message == Join("joiner", left)
        assert dials(effects) == []
        assert member.active == set(PEERS[:7])
        walkers.add(walker)
    assert "p0" not in walkers
    assert len(walkers) > 1


def test_join_of_a_node_that_cannot_be_dialled_walks_on() -> None:
    """E05: TTL-1 to a random neighbour; at TTL 0 it is dropped. Both are counted."""
    member = Member("a", "b")
    member.receive("a", Join("joiner", 3))
    effects = member.handle(ev.DialFailed("joiner"))
    assert sent(effects) == [("b", Join("joiner", 2))]
    assert drops(effects) == [DropReason.UNREACHABLE]
    member.receive("a", Join("joiner", 0))
    effects = member.handle(ev.DialFailed("joiner"))
    assert sent(effects) == []
    assert drops(effects) == [DropReason.UNREACHABLE]
    assert member.active == {"a", "b"}


def test_a_join_that_ends_where_it_started_uses_the_connection_it_came_by() -> None:
    """E08: at TTL zero a node behind NAT, which can't be dialled, gets its link."""
    member = Member(*PEERS[:7], membership=specified())
    effects = member.receive("natted", Join("natted", 0))
    assert dials(effects) == []
    assert "natted" in member.active


def test_join_of_a_neighbour_looks_for_another_link() -> None:
    """E06, E12: it walks on; where it can't, the neighbour is notified that it is one, in case it
    doesn't know."""
    member = Member("a", "b")
    assert sent(member.receive("a", Join("a", 3))) == [("b", Join("a", 2))]
    ((peer, message),) = sent(member.receive("a", Join("a", 0)))
    assert (peer, message.role) == ("a", NeighborRole.ACCEPT)
    assert member.active == {"a", "b"}


def test_our_own_join_that_comes_by_walks_on() -> None:
    """E06: a random walk may come back to where it started; a node is never in its own view."""
    member = Member("a", "b")
    assert sent(member.receive("a", Join(ME, 3))) == [("b", Join(ME, 2))]
    assert sent(member.receive("a", Join(ME, 0))) == []
    assert member.active == {"a", "b"}


@pytest.mark.parametrize(("ttl", "left"), [(2, 1), (99, 5)])
def test_forwardjoin_walks_and_leaves_the_node_in_passive_views(ttl: int, left: int) -> None:
    """E07: remembered at every node that it visits, passed on to one while TTL is left."""
    member = Member("a", "b", "c")
    ((walker, message),) = sent(member.receive("a", ForwardJoin("new", ttl)))
    assert walker in {"b", "c"}
    assert message == ForwardJoin("new", left)
    assert member.passive == {"new"}
    assert sent(member.receive("a", ForwardJoin("newer", 0))) == []
    assert member.passive == {"new", "newer"}
