"""What one hostile peer, or the peers of one address prefix, can do to membership at most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import DropReason, Effect, NeighborUp
from episub_router.protocol.hyparview import CONTACTS_ASKED
from episub_router.protocol.hyparview.machine import (
    LIMITS,
    MAX_PEERS,
    REQUEST_LIMIT,
    RateLimiter,
)
from episub_router.protocol.hyparview.overlay import MAX_DIALS, MAX_DIALS_FOR_OTHERS, SHARE
from episub_router.protocol.hyparview.views import PassiveView
from episub_router.protocol.messages import (
    Disconnect,
    ForwardJoin,
    GetNodes,
    GetTopics,
    Join,
    Leave,
    LinkKind,
    Message,
    Neighbor,
    NeighborRole,
    Shuffle,
)
from episub_router.protocol.params import EpisubParams, MembershipParams
from episub_router.protocol.topic import Topic
from episub_router.protocol.types import Group, GroupOf, PeerId
from episub_router.util.params import Rate
from tests.protocol.helpers import ME, Member, dials, drops, request, sent
from tests.protocol.network import Network

PARAMS = MembershipParams()
MOST = round(SHARE * PARAMS.passive_size)


def by_prefix(peer: PeerId) -> Group | None:
    """Peers whose names have a colon are in the group before it."""
    prefix, colon, _ = str(peer).partition(":")
    return prefix if colon else None


class Grouped(Member):
    """A member that knows its peers' groups."""

    def __init__(self, *neighbors: str, **changed: Any) -> None:
        super().__init__()
        both = EpisubParams(membership=MembershipParams(**changed))
        self.machine = Topic(ME, "t", both, Random(0), by_prefix)
        self.handle(ev.JoinOverlay())
        for peer in neighbors:
            self.link(peer)


def view(*known: str, size: int = 40, group_of: GroupOf = by_prefix) -> PassiveView:
    """A view of which an informant or a group may have 10 entries."""
    passive = PassiveView(size, 0.25, group_of)
    for peer in known:
        passive.add(peer, Random(0))
    return passive


def named(start: str, count: int) -> list[str]:
    return [f"{start}{n}" for n in range(count)]


def held(peers: Iterable[PeerId], start: str) -> int:
    return sum(str(peer).startswith(start) for peer in peers)


# Contacts


def test_contacts_of_one_prefix_are_asked_last() -> None:
    """E02: contacts that have nothing in common, if there are enough."""
    contacts = (*named("evil:", 30), *[f"{n}:1" for n in range(CONTACTS_ASKED - 1)], "alone")
    for seed in range(10):
        machine = Topic(ME, "t", EpisubParams(), Random(seed), by_prefix)
        asked = dials(machine.handle(ev.JoinOverlay(contacts), 0.0))
        assert len(asked) == CONTACTS_ASKED
        assert held(asked, "evil") <= 1
    machine = Topic(ME, "t", EpisubParams(), Random(0), by_prefix)
    asked = dials(machine.handle(ev.JoinOverlay(contacts[:20]), 0.0))
    assert len(asked) == CONTACTS_ASKED


# The passive view


def test_one_source_gets_its_share_of_a_full_view() -> None:
    """E07: whatever a neighbour makes up, most of what others sent stays."""
    member = Member("liar", "b", passive=named("p", 60))
    for n in range(500):
        member.receive("liar", ForwardJoin(f"fake{n}", 0))
        member.now += 5
    assert held(member.passive, "fake") == MOST
    assert held(member.passive, "p") == PARAMS.passive_size - MOST


def test_sources_of_one_prefix_share_a_share() -> None:
    """E19: many ids with one owner name no more than one."""
    passive = view(*named("p", 40))
    for n in range(100):
        passive.exchange(named(f"fake{n}-", 7), named("p", 7), Random(n), source=f"evil:{n}")
    assert held(passive, "fake") == 10
    for n in range(100):
        passive.exchange(named(f"more{n}-", 7), [], Random(n), source=f"other{n}")
    assert held(passive, "more") > 10


def test_peers_of_one_prefix_get_one_share_whatever_the_source() -> None:
    """E19: an owner of a prefix can't be most of a full view."""
    passive = view(*named("p", 40))
    for n in range(200):
        passive.add(f"evil:{n}", Random(n), source=f"honest{n}")
    assert held(passive, "evil") == 10
    assert "evil:199" in passive


def test_where_both_shares_are_full_only_what_belongs_to_both_is_replaced() -> None:
    """E19: a newcomer can't take another's place by being of two kinds."""
    passive = view(*named("x:", 10), *named("p", 20))
    passive.exchange(named("y", 10), [], Random(0), source="liar")
    assert len(passive) == 40
    before = set(passive)
    assert not passive.add("x:new", Random(0), source="liar")
    assert set(passive) == before


def test_room_is_anybodys_until_others_need_it() -> None:
    """E03: in a young or homogeneous overlay shares cost nobody an entry; what is beyond a share
    goes first when others come."""
    passive = view(*named("site:", 40))
    assert len(passive) == 40
    for n in range(30):
        assert passive.add(f"p{n}", Random(n))
        assert held(passive, "site:") == 40 - n - 1
    assert held(passive, "site:") == 10
    passive.add("p30", Random(1))
    assert held(passive, "site:") >= 9


def test_shares_follow_removals() -> None:
    """E01: what was forgotten counts no more."""
    passive = view(*named("evil:", 10), *named("p", 30))
    for n in range(10):
        passive.remove(f"evil:{n}")
    for n in range(10):
        assert passive.add(f"evil:new{n}", Random(n))
    assert held(passive, "evil:new") == held(passive, "evil") == 10
    passive.clear()
    for n in range(60):
        passive.add(f"evil:{n}", Random(n))
    assert len(passive) == passive.size == 40


def test_what_a_share_keeps_out_is_counted() -> None:
    """E07: a drop has a reason."""
    member = Grouped("n", passive_size=8)
    member.handle(ev.ContactsFound(("x:1", "x:2", *named("p", 6))))
    for n in range(20):
        if held(member.passive, "y") < 2:
            member.receive("n", ForwardJoin(f"y{n}", 0))
    assert held(member.passive, "x:") == 2
    assert drops(member.receive("n", ForwardJoin("x:3", 0))) == [DropReason.SHARE_FULL]


# Rates


KINDS: list[tuple[Message, Rate]] = [
    (Join("evil", 3), LIMITS[Join]),
    (ForwardJoin("p", 3), LIMITS[ForwardJoin]),
    (Neighbor(NeighborRole.QUERY, 5), LIMITS[Neighbor]),
    (request(5), REQUEST_LIMIT),
    (Shuffle("p", 3, 1), LIMITS[Shuffle]),
    (Leave("p", 3, b"1"), LIMITS[Leave]),
    (GetNodes(), LIMITS[GetNodes]),
    (GetTopics(), LIMITS[GetTopics]),
]


@pytest.mark.parametrize(("message", "limit"), KINDS, ids=lambda value: type(value).__name__)
def test_each_kind_has_a_limit_for_each_peer(message: Message, limit: Rate) -> None:
    """A burst passes, a flood doesn't, patience helps, and others aren't affected."""
    member = Member("evil", "good")
    member.now = 1000.0
    limited = [
        DropReason.RATE_LIMITED in drops(member.receive("evil", message))
        for _ in range(limit.burst + 10)
    ]
    assert limited == [False] * limit.burst + [True] * 10
    assert DropReason.RATE_LIMITED not in drops(member.receive("good", message))
    member.now += 1.01 / limit.per_second
    limited = [DropReason.RATE_LIMITED in drops(member.receive("evil", message)) for _ in range(2)]
    assert limited == [False, True]


def test_a_link_that_comes_and_goes_comes_rarely() -> None:
    """E10: REQUEST and DISCONNECT in turn cost us a link's work only so often."""
    member = Member("a", "b")
    effects: list[Effect] = []
    for _ in range(1000):
        effects += member.receive("evil", request(5))
        effects += member.receive("evil", Disconnect())
        member.now += 0.1
    ups = sum(isinstance(effect, NeighborUp) for effect in effects)
    limit = REQUEST_LIMIT
    assert ups <= limit.burst + 100 * limit.per_second + 1
    assert member.active >= {"a", "b"}


def test_the_table_of_limits_is_bounded() -> None:
    """The longest silent are forgotten; one that goes on sending is not."""
    limiter = RateLimiter()
    while limiter.allows("evil", GetNodes(), 0.0):
        pass
    for n in range(3 * MAX_PEERS):
        limiter.allows(n, GetNodes(), 0.0)
        assert not limiter.allows("evil", GetNodes(), 0.0)
        assert len(limiter) <= MAX_PEERS


def test_reconnecting_doesn_t_refill_the_buckets() -> None:
    member = Member("a")
    while drops(member.receive("evil", GetNodes())) == []:
        pass
    member.handle(ev.PeerDown("evil"))
    member.handle(ev.Connected("evil"))
    assert drops(member.receive("evil", GetNodes())) == [DropReason.RATE_LIMITED]


# Which peers may send what


@pytest.mark.parametrize(
    "walk",
    [Join("somebody", 6), ForwardJoin("somebody", 6), Shuffle("stranger", 6, 1)],
    ids=lambda message: type(message).__name__,
)
def test_walks_come_over_links(walk: Message) -> None:
    """E05, E07, E19: a stranger can't have us walk, dial or remember; it is notified, since it may
    believe to be a neighbour."""
    member = Member("a", "b")
    effects = member.receive("stranger", walk)
    assert drops(effects) == [DropReason.NOT_NEIGHBOR]
    assert sent(effects) == [("stranger", Disconnect())]
    assert not dials(effects)
    assert not member.passive


def test_nobody_becomes_a_neighbour_by_hearsay() -> None:
    """E09: a peer that is only named is dialled first, and has to ask for the link itself."""
    member = Member("a", passive=["named"])
    effects = member.wait(10)
    assert dials(effects) == ["named"]
    assert member.active == {"a"}
    (asked,) = sent(member.handle(ev.Connected("named")), Neighbor)
    assert asked[0] == "named"
    assert member.active == {"a"}
    member.receive("named", Disconnect(alive=False))
    assert member.active == {"a"}
    assert not member.passive


def test_forced_joins_do_not_grow_the_active_view_without_bound() -> None:
    """E06, E10, E13: joins that must be accepted (TTL 0), requests of peers in need, and
    acceptances and queries that nobody asked for don't go beyond the hard bound."""
    member = Member("a")
    for n in range(200):
        member.receive("a", Join(f"join{n}", 0))
        member.handle(ev.Connected(f"join{n}"))
        member.receive(f"self{n}", Join(f"self{n}", 0))
        member.receive("a", ForwardJoin(f"forward{n}", 0))
        member.receive(f"need{n}", request(links=0))
        member.receive(f"accept{n}", Neighbor(NeighborRole.ACCEPT, 0))
        member.receive(f"query{n}", Neighbor(NeighborRole.QUERY, 0))
        assert len(member.active) <= member.params.active_bound
    assert len(member.active) >= member.params.active_size


def test_identities_of_one_prefix_take_no_link_of_others() -> None:
    """E10, E16: twelve that ask without end, in need, near or next on a ring, and say of themselves
    what they like: a member keeps all five neighbours of other prefixes."""
    honest = [f"{n}:x" for n in range(5)]
    for run in range(5):
        member = Grouped(*honest)
        hostile = [f"evil:{run}-{n}" for n in range(12)]
        for second in range(60):
            for peer in hostile:
                member.receive(peer, Join(peer, 0))
                kind = LinkKind.NEAR if second % 2 else LinkKind.RANDOM
                member.receive(peer, request(9, kind, random_links=1))
                member.handle(ev.RttMeasured(peer, 0.001))
            member.wait(1)
            for peer in member.active:
                links = 9 if peer in honest else 2
                told = tuple(honest) + tuple(hostile)
                said = Neighbor(NeighborRole.LIST, links, peers=told, random_links=links)
                member.receive(peer, said)
                member.handle(ev.RttMeasured(peer, 0.1))
        assert set(honest) <= member.active
        assert len(member.active) <= member.params.active_bound


# Dials


def test_joins_leave_room_for_our_own_dials() -> None:
    """E05, E17: a neighbour that relays JOINs of peers that don't answer can't keep us from
    replacing a link."""
    member = Member("evil", "b", passive=named("p", 10))
    for n in range(MAX_DIALS + 10):
        effects = member.receive("evil", Join(f"nobody{n}", 0))
    assert DropReason.DIALS_FULL in drops(effects)
    assert len(dials(member.handle(ev.PeerDown("b")))) > 0


def test_a_dial_of_our_own_doesn_t_count_as_anothers() -> None:
    """E05: what others asked for first and we want now is ours."""
    member = Member("a", passive=["x"])
    for n in range(MAX_DIALS_FOR_OTHERS - 1):
        member.receive("a", Join(f"z{n}", 0))
    assert dials(member.receive("a", Join("x", 0))) == ["x"]
    assert DropReason.DIALS_FULL in drops(member.receive("a", Join("y", 0)))
    member.wait(6)
    assert dials(member.receive("a", Join("y", 0))) == ["y"]


# In an overlay


@pytest.mark.sim
def test_an_overlay_with_a_flooding_member_goes_on() -> None:
    """A member that sends made-up peers in every way it can, as fast as it likes: views hold few
    of them, links stand, and messages arrive everywhere."""
    network = Network(60, seed=4)
    network.join_all()
    network.run(20)
    evil = 7
    made_up = range(10**6, 2 * 10**6)
    network.unreachable = set(made_up)
    fakes = iter(made_up)

    def flood() -> None:
        for peer in network.neighbors(evil):
            if frozenset((evil, peer)) not in network.connections:
                continue
            for _ in range(10):
                fake = next(fakes)
                network._send(evil, peer, ForwardJoin(fake, 6))
                network._send(evil, peer, Join(fake, 6))
                network._send(
                    evil, peer, Shuffle(evil, 6, peers=tuple(next(fakes) for _ in range(7)))
                )
        network.at(network.now + 0.1, flood)

    flood()
    network.run(30)
    assert network.drops[DropReason.RATE_LIMITED] > 5_000
    honest = [node for node in network.live if node != evil]
    links = Counter(len(network.neighbors(node)) for node in honest)
    views = [set(network.topics[node].membership.passive) for node in honest]
    assert sum(len(v & network.unreachable) for v in views) < 0.75 * sum(map(len, views))
    assert min(links) >= PARAMS.random_links
    assert network.components() == 1
    network.publish(0, "m")
    network.run(5)
    assert network.missed("m") == set()
