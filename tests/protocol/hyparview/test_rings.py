"""Rings: random links that nobody chooses and nobody can take (docs/security.md)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import Effect
from episub_router.protocol.hyparview import HyParView, Places, place
from episub_router.protocol.hyparview.join import NODES_TIMEOUT
from episub_router.protocol.hyparview.link_check import LIST_TIMEOUT
from episub_router.protocol.hyparview.neighbor import NEIGHBOR_TIMEOUT
from episub_router.protocol.hyparview.overlay import ROUNDS, Timer
from episub_router.protocol.hyparview.rings import MAX_RECENT_JOINERS, RECENT
from episub_router.protocol.messages import (
    Disconnect,
    GetNodes,
    Join,
    LinkKind,
    Neighbor,
    NeighborRole,
    Nodes,
)
from episub_router.protocol.params import EpisubParams, MembershipParams
from tests.protocol.helpers import ME, Member, accept, dials, request, requests, sent
from tests.protocol.network import Network

PEERS = [f"p{n}" for n in range(40)]
PLACES = Places("t", 2)
NEXT = list(PLACES.next_to(ME, PEERS))
"""The peers next to the node under test, should it know all."""
OTHERS = [peer for peer in PEERS if peer not in NEXT]


def full(*peers: str, **changed: Any) -> Member:
    """A member with A neighbours, `peers` first, that say they can spare it."""
    member = Member(membership=MembershipParams(**changed))
    for n, peer in enumerate([*peers, *OTHERS][: member.params.active_size]):
        kind = LinkKind.RANDOM if n < member.params.random_links else LinkKind.NEAR
        member.link(peer, kind, links=9, random_links=6)
        member.handle(ev.RttMeasured(peer, 0.1))
    return member


def joining(*named: str, **changed: Any) -> tuple[Member, list[Effect]]:
    """A member whose contact has named these."""
    member = Member(membership=MembershipParams(**changed))
    member.handle(ev.Connected("contact"))
    member.handle(ev.JoinOverlay(("contact",)))
    return member, member.reach(member.receive("contact", Nodes(named, 6)))


# Places


def test_a_place_is_a_hash_of_topic_ring_and_id() -> None:
    """docs/wire.md has the same numbers."""
    assert place("news", 0, b"\x00\x24abc") == 0x6E14_B906_6BCB_1A86
    assert len({place(name, ring, b"a") for name in ("t", "u") for ring in (0, 1)}) == 4


@pytest.mark.parametrize("rings", [1, 2, 3])
def test_two_are_next_on_each_ring_and_both_ends_agree(rings: int) -> None:
    next_to = {peer: Places("t", rings).next_to(peer, PEERS) for peer in PEERS}
    assert max(map(len, next_to.values())) == 2 * rings
    assert all(peer in next_to[other] for peer in PEERS for other in next_to[peer])


def test_no_two_peers_of_one_group_are_next_where_others_are() -> None:
    """Ids are cheap to make up: who finds four that are next to a node needs four prefixes, too."""
    groups = dict.fromkeys(NEXT, "one prefix")
    found = Places("t", 2, groups.get).next_to(ME, PEERS)
    assert len(found) == 4
    assert len([peer for peer in found if peer in groups]) == 1


def test_the_nearest_of_each_side_and_ring_come_nearest_first() -> None:
    nearest = PLACES.nearest(ME, PEERS, 1)
    assert set(nearest) == set(NEXT)
    assert nearest[0] == min(NEXT, key=_distance)
    assert set(NEXT) <= set(PLACES.nearest(ME, PEERS, 2))
    assert len(PLACES.nearest(ME, PEERS, 2)) > 4
    assert PLACES.nearest(ME, [], 2) == []


def _distance(peer: str) -> int:
    turn = 1 << 64
    gaps = [(place("t", ring, peer) - place("t", ring, ME)) % turn for ring in range(2)]
    return min(min(gap, turn - gap) for gap in gaps)


# Links


def test_a_peer_that_is_next_gets_a_link_whatever_the_view_holds() -> None:
    member = full()
    for peer in NEXT:
        effects = member.receive(peer, request(links=9, random_links=6))
        assert [said.role for _, said in sent(effects, Neighbor)] == [NeighborRole.ACCEPT]
    assert set(NEXT) <= member.active
    assert len(member.active) <= member.params.active_bound


def test_at_the_bound_another_link_gives_way_to_it_and_never_one_of_a_ring() -> None:
    """Those that were next until then are given up last."""
    member = full()
    first = [*PLACES.next_to(ME, member.active)]
    for peer in sorted(PEERS, key=_distance, reverse=True):
        member.receive(peer, request(links=9, random_links=6))
        assert len(member.active) <= member.params.active_bound
    assert set(NEXT) <= member.active
    assert first


def test_a_join_is_accepted_by_the_first_that_it_is_next_to() -> None:
    member = full()
    sender = OTHERS[0]
    known = list(member.active)
    far = next(p for p in OTHERS if p not in known and p not in PLACES.next_to(ME, [*known, p]))
    walk = member.receive(sender, Join(far, 6))
    assert len(sent(walk, Join)) == 1
    assert not dials(walk)
    effects = member.reach(member.receive(sender, Join(NEXT[0], 6)))
    assert not sent(effects, Join)
    ((to, said),) = sent(effects, Neighbor)
    assert (to, said.role) == (NEXT[0], NeighborRole.ACCEPT)
    assert NEXT[0] in member.active


@pytest.mark.parametrize("rings", [1, 2])
def test_no_claim_or_nearness_takes_a_link_of_a_ring_or_a_proved_one(rings: int) -> None:
    """Every other peer asks, by a JOIN that must be accepted and by requests, in need and near; and
    all neighbours say that they can spare the links that they have."""
    kept = [*Places("t", rings).next_to(ME, PEERS), *OTHERS][:4]
    member = full(*kept, rings=rings)
    for _ in range(4):
        for peer in OTHERS:
            member.receive(peer, Join(peer, 0))
            member.receive(peer, request(links=1, random_links=0))
            member.receive(peer, request(9, LinkKind.NEAR, 6))
            member.handle(ev.RttMeasured(peer, 0.001))
        member.wait(ROUNDS[Timer.STABILIZE][0])
        for peer in list(member.active):
            said = Neighbor(NeighborRole.LIST, 9, peers=tuple(kept), random_links=6)
            member.receive(peer, said)
        member.wait(LIST_TIMEOUT)
        assert set(kept) <= member.active


def test_a_link_whose_place_is_taken_ends_once_the_view_is_too_large() -> None:
    """Both ends have found others by then; it ends without the peer's consent."""
    member = full()
    for peer in NEXT:
        member.receive(peer, request(links=9, random_links=6))
    assert set(OTHERS[:4]) <= member.active, "an overlap, in which nothing is missed"
    for _ in range(3):
        member.wait(ROUNDS[Timer.STABILIZE][0])
        for peer in list(member.active):
            member.receive(peer, Neighbor(NeighborRole.LIST, 7, random_links=4))
        member.wait(LIST_TIMEOUT)
    assert set(NEXT) <= member.active
    assert len(member.active) == member.params.active_size
    assert not set(OTHERS[:4]) & member.active


# Finding them


def test_peers_next_to_it_are_asked_first_and_joins_wait_for_them() -> None:
    member, effects = joining(*NEXT, *OTHERS[:8])
    assert set(requests(effects)) == set(NEXT)
    assert not sent(effects, Join)
    for peer in NEXT:
        member.receive(peer, accept())
    assert not sent(member.reach(member.wait(2 * NODES_TIMEOUT)), Join)


def test_joins_are_sent_where_those_bring_too_few_links() -> None:
    member, effects = joining(*PEERS[:12])
    for peer in requests(effects):
        member.receive(peer, Disconnect())
    assert sent(member.reach(member.wait(NODES_TIMEOUT)), Join)


def test_one_that_refuses_is_asked_for_nearer_ones() -> None:
    member, effects = joining(*OTHERS[:12])
    first = next(peer for peer in requests(effects) if peer != "contact")
    refused = member.receive(first, Disconnect())
    assert first in [peer for peer, _ in sent(refused, GetNodes)]
    named = member.reach(member.receive(first, Nodes((*NEXT, *OTHERS[:4]), 6)))
    assert set(NEXT) <= set(requests(named))
    assert first not in requests(named)


def test_a_candidate_that_is_not_there_or_silent_gives_way_to_the_next() -> None:
    """Ids that are invented can be nearer than all that exist."""
    member = Member(membership=MembershipParams())
    member.handle(ev.Connected("contact"))
    member.handle(ev.JoinOverlay(("contact",)))
    effects = member.receive("contact", Nodes((*NEXT, *OTHERS[:12]), 6))
    gone, silent, *others = NEXT
    assert set(NEXT) <= set(dials(effects))
    for peer in others:
        member.handle(ev.Connected(peer))
        member.receive(peer, accept())
    left = ["contact", *OTHERS[:12]]
    (after_gone,) = set(PLACES.next_to(ME, [silent, *others, *left])) - {silent, *others}
    effects = member.reach(member.handle(ev.DialFailed(gone)))
    assert after_gone in requests(effects)
    member.receive(after_gone, accept())
    member.handle(ev.Connected(silent))
    after_both = set(PLACES.next_to(ME, [after_gone, *others, *left])) - {after_gone, *others}
    effects = member.wait(NEIGHBOR_TIMEOUT + 1)
    assert after_both <= {*dials(effects), *requests(effects), *member.active}


def test_a_lost_link_is_replaced_by_the_next_one_known() -> None:
    member = full(*NEXT)
    (asked, _), *_ = sent(member.wait(ROUNDS[Timer.SEARCH][0]), GetNodes)
    assert asked in NEXT
    member.receive(asked, Nodes(tuple(OTHERS[-16:]), 6))
    effects = member.reach(member.handle(ev.PeerDown(NEXT[0])))
    known = [*member.active, *OTHERS[-16:]]
    expected = set(PLACES.next_to(ME, known)) - member.active
    assert expected <= set(requests(effects))
    # Each is asked for nearer ones once it has accepted, and one that is left soon.
    for peer in sorted(expected):
        assert sent(member.receive(peer, accept()), GetNodes) == [(peer, GetNodes(2))]


def test_a_lost_link_that_was_on_no_ring_starts_no_search() -> None:
    """Near links change for minutes, and each answer names some peers."""
    for lost_on_ring, seconds in ((False, 10.0), (True, 25.0)):
        member = full(*NEXT)
        member.live(40)
        lost = next(peer for peer in member.active if (peer in NEXT) == lost_on_ring)
        effects = member.handle(ev.PeerDown(lost)) + member.live(seconds)
        assert bool(sent(effects, GetNodes)) == lost_on_ring


def test_periods_grow_while_nothing_changes() -> None:
    member = full(*NEXT)

    def queries(seconds: float) -> int:
        return len(sent(member.live(seconds, step=5), GetNodes))

    early = queries(60)
    queries(1200)
    assert early == 3
    assert 1 <= queries(2 * ROUNDS[Timer.SEARCH][1]) <= 2


def test_contacts_are_asked_while_links_are_found_and_then_rarely() -> None:
    """A node in a network that stays dials nobody."""
    member = full(*NEXT)
    member.handle(ev.ContactsFound(("contact",)))

    def asked(seconds: float) -> int:
        count = 0
        for _ in range(round(seconds / 5)):
            effects = member.reach(member.wait(5))
            count += [to for to, _ in sent(effects, GetNodes)].count("contact")
            for peer in list(member.active):
                member.receive(peer, Neighbor(NeighborRole.LIST, 7, random_links=4))
        return count

    assert asked(320) >= 5
    assert asked(1200) == 0
    assert asked(2 * ROUNDS[Timer.SEARCH][1]) >= 1


def test_get_nodes_is_answered_with_the_peers_next_to_the_asker_first() -> None:
    """Also with such as asked before: through a contact all that join find each other."""
    member = full()
    for peer in PEERS:
        member.receive(peer, GetNodes())
    ((_, answer),) = sent(member.receive("asker", GetNodes()), Nodes)
    expected = PLACES.next_to("asker", PEERS)
    assert set(answer.peers[: len(expected)]) == set(expected)
    assert "asker" not in answer.peers
    assert len(set(answer.peers)) == len(answer.peers) <= 16


@pytest.mark.slow
def test_a_flood_of_joiners_is_bounded_and_one_prefix_has_a_share() -> None:
    """What is named to others is what asked of late, and no flood of one owner puts it out."""

    def group_of(peer: object) -> object:
        return None if str(peer).startswith("p") else "one prefix"

    machine = HyParView(ME, "t", MembershipParams(), Random(1), group_of)
    machine.handle(ev.JoinOverlay(), 0.0)
    for peer in PEERS:
        machine.handle(ev.Received(peer, GetNodes()), 0.0)
    for n in range(MAX_RECENT_JOINERS + 100):
        machine.handle(ev.Received(f"x{n}", GetNodes()), 1.0)
    effects = machine.handle(ev.Received("asker", GetNodes(4)), 2.0)
    ((_, answer),) = sent(effects, Nodes)
    assert len(answer.peers) == 4
    assert len(machine._contact.recent_joiners) == MAX_RECENT_JOINERS
    assert set(PEERS) <= set(machine._contact.recent_joiners)


@pytest.mark.parametrize(
    ("rings", "later", "named"), [(2, 1, True), (2, RECENT, False), (0, 1, False)]
)
def test_a_recent_joiner_is_named(rings: int, later: float, named: bool) -> None:
    """Not for ever, as it may be gone; and only where rings make a node look for it."""
    member = Member(membership=MembershipParams(rings=rings))
    for peer in NEXT:
        member.receive(peer, GetNodes())
    member.now += later
    ((_, answer),) = sent(member.receive("asker", GetNodes(4)), Nodes)
    assert set(answer.peers) == (set(NEXT) if named else set())


def test_a_banned_joiner_is_not_named() -> None:
    member = full()
    member.receive(NEXT[0], GetNodes())
    member.machine.membership.ban(NEXT[0], 600.0, member.now)
    ((_, answer),) = sent(member.receive("asker", GetNodes()), Nodes)
    assert NEXT[0] not in answer.peers


@pytest.mark.parametrize(("rings", "random", "links"), [(2, 1, 0), (2, 3, 2), (0, 4, 0), (2, 4, 4)])
def test_rings_take_two_random_links_each(rings: int, random: int, links: int) -> None:
    assert MembershipParams(rings=rings, random_links=random).ring_links == links


# Together


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.slow
def test_all_find_their_places_and_keep_them(seed: int) -> None:
    """Sixty nodes that join through three contacts; then a tenth of them crashes."""
    network = Network(60, EpisubParams(), seed)
    for node in range(60):
        network.join(node, *range(min(3, node)))
        network.run(0.1)
    network.run(40)
    assert _missing(network) == 0
    before = {node: set(network.topics[node].membership.active) for node in network.live}
    network.run(60)
    places = Places("t", 2)
    for node in network.live:
        kept = set(places.next_to(node, network.live)) & before[node]
        assert kept <= set(network.topics[node].membership.active)
    network.kill(range(3, 9))
    network.run(90)
    assert _missing(network) == 0


def _missing(network: Network) -> int:
    """Links that two neighbours on a ring should have and don't."""
    places = Places("t", 2)
    return sum(
        peer not in network.topics[node].membership.active
        for node in network.live
        for peer in places.next_to(node, network.live)
    )
