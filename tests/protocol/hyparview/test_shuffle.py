"""Exchanging parts of passive views (E19, E20)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import DropReason, Release
from episub_router.protocol.hyparview.shuffle import (
    MAX_ANSWERED,
    SHUFFLE_ACTIVE,
    SHUFFLE_PASSIVE,
    SHUFFLE_TIMEOUT,
    SHUFFLE_TTL,
)
from episub_router.protocol.messages import (
    Nodes,
    Shuffle,
    ShuffleReply,
)
from episub_router.protocol.params import MembershipParams
from tests.protocol.helpers import ME, Member, dials, drops, sent

PEERS = tuple(f"p{n}" for n in range(40))


def full(*neighbors: str, seed: int = 0, **changed: int) -> Member:
    """A member whose view needs no more links, so that nothing but shuffles is sent."""
    size = len(neighbors)
    return Member(
        *neighbors,
        passive=PEERS,
        seed=seed,
        membership=MembershipParams(
            active_size=size, random_links=size, near_links=0, rings=0, **changed
        ),
    )


def first_shuffle(member: Member) -> tuple[str, Shuffle]:
    while not (shuffles := sent(member.live(0.1, step=0.1), Shuffle)):
        assert member.now <= member.params.shuffle_interval
    (shuffle,) = shuffles
    return shuffle


def test_a_shuffle_offers_a_few_of_both_views_to_a_random_neighbour() -> None:
    """E19: our id, k_a active and k_p passive peers, the full TTL."""
    member = full("a", "b", "c", "d", "e")
    walker, shuffle = first_shuffle(member)
    assert walker in member.active
    assert shuffle.peer == ME
    assert shuffle.ttl == SHUFFLE_TTL
    assert shuffle.peers == ()
    ((_, nodes),) = sent(member.receive("end", ShuffleReply(())), Nodes)
    offered = set(nodes.peers)
    assert len(offered) == len(nodes.peers) == shuffle.offered
    assert len(offered & (member.active - {walker})) == SHUFFLE_ACTIVE
    assert len(offered & set(PEERS)) == SHUFFLE_PASSIVE
    walkers = {first_shuffle(full("a", "b", "c", "d", "e", seed=seed))[0] for seed in range(9)}
    assert len(walkers) > 1


def test_shuffles_come_periodically_and_not_all_at_once() -> None:
    """E19: once per interval, which doubles; at a random time, so that nodes that start together
    don't shuffle together. A link that fails brings the shortest one back."""
    times = []
    for seed in range(10):
        member = full("a", "b", seed=seed)
        first_shuffle(member)
        times.append(round(member.now, 1))
        interval = member.params.shuffle_interval
        assert interval / 2 <= member.now <= interval
        member.receive("a", ShuffleReply(()))
        assert sent(member.live(2 * interval - member.now - 1), Shuffle) == []
        member.handle(ev.PeerDown("b"))
        assert sent(member.live(interval), Shuffle)
    assert len(set(times)) > 5


def test_a_shuffle_without_a_reply_is_tried_with_lower_ttls() -> None:
    """E20: down to zero, where the neighbour answers over the connection that stands. So it does
    at rest, until a link fails."""
    member = full("a", "b", shuffle_interval=30)

    def tries(seconds: int) -> list[tuple[float, int]]:
        found = []
        for _ in range(10 * seconds):
            shuffles = sent(member.live(0.1, step=0.1), Shuffle)
            found += [(member.now, shuffle.ttl) for _, shuffle in shuffles]
        return found

    times, ttls = zip(*tries(400), strict=True)
    assert ttls == (6, 3, 1, 0, *[0] * (len(ttls) - 4))
    assert len(ttls) > 5
    pauses = [later - earlier for earlier, later in pairwise(times[:4])]
    assert pauses == pytest.approx([SHUFFLE_TIMEOUT] * 3, abs=0.2)
    member.handle(ev.PeerDown("b"))
    assert tries(30)[0][1] == 6


def test_nobody_to_shuffle_with() -> None:
    """E19: without neighbours there is no shuffle, and the timer goes on."""
    member = Member()
    assert sent(member.wait(100), Shuffle) == []
    member.link("a")
    assert sent(member.live(100), Shuffle)


def test_a_shuffle_walks_while_it_has_ttl() -> None:
    """E19: to one random neighbour, neither back nor to its origin, and nothing is exchanged."""
    member = full("a", "b", "origin")
    effects = member.receive("a", Shuffle("origin", 3, 1))
    assert sent(effects) == [("b", Shuffle("origin", 2, 1))]
    assert "x" not in member.passive


def test_the_end_of_the_walk_answers_the_origin_and_exchanges() -> None:
    """E19: random passive peers in return, as many as are offered; what the origin then sends makes
    room for those, and the origin itself is remembered."""
    member = full("a", "b", passive_size=40)
    assert dials(member.receive("a", Shuffle("origin", 0, 2))) == ["origin"]
    effects = member.handle(ev.Connected("origin"))
    ((peer, reply),) = sent(effects)
    assert peer == "origin"
    assert len(set(reply.peers)) == 3
    assert set(reply.peers) <= set(PEERS)
    assert "origin" in member.passive
    assert Release("origin") not in effects, "what it offers is on its way"
    assert Release("origin") in member.receive("origin", Nodes(("x", "y", "z"), 6))
    assert member.passive >= {"x", "y", "origin"}
    assert len(member.passive & set(reply.peers)) == 0
    assert "z" not in member.passive, "more than it offered"
    assert drops(member.receive("origin", Nodes(("z",), 6))) == [DropReason.UNSOLICITED]


def test_a_walk_may_carry_the_peers_offered() -> None:
    """E19: as in the specification; the exchange is done at once."""
    member = full("a", "b", passive_size=40)
    shuffle = Shuffle("origin", 3, peers=("x", "y"))
    assert sent(member.receive("a", shuffle)) == [("b", replace(shuffle, ttl=2))]
    member.receive("a", replace(shuffle, ttl=0))
    effects = member.handle(ev.Connected("origin"))
    ((_, reply),) = sent(effects)
    assert member.passive == {*PEERS, "x", "y", "origin"} - set(reply.peers)
    assert Release("origin") in effects


def test_an_origin_that_offers_nothing_is_let_go_at_once() -> None:
    member = full("a", "b")
    member.receive("a", Shuffle("origin", 0))
    assert Release("origin") in member.handle(ev.Connected("origin"))


def test_origins_that_do_not_send_what_they_offer_are_let_go() -> None:
    member = full("a", "b")
    origins = [f"origin {number}" for number in range(MAX_ANSWERED + 1)]
    released = []
    for origin in origins:
        member.receive("a", Shuffle(origin, 0, 1))
        effects = member.handle(ev.Connected(origin))
        released += [effect.peer for effect in effects if isinstance(effect, Release)]
    assert released == [origins[0]]


def test_a_walk_ends_where_there_is_nobody_else() -> None:
    """E19: "the receiver has more than one active peer", or it answers, TTL or not."""
    member = full("a")
    assert dials(member.receive("a", Shuffle("origin", 5, 1))) == ["origin"]


def test_no_connection_to_the_origin_no_exchange() -> None:
    """E19, E20: a peer that can't be answered gets no shuffle, and fills no views."""
    member = full("a", "b")
    member.receive("a", Shuffle("origin", 0, 1))
    effects = member.handle(ev.DialFailed("origin"))
    assert drops(effects) == [DropReason.UNREACHABLE]
    assert member.passive == set(PEERS)


def test_the_reply_takes_the_place_of_what_was_offered() -> None:
    """E19: the origin does the same; what it keeps is everything that it didn't offer."""
    member = full("a", "b", passive_size=40)
    first_shuffle(member)
    ((peer, nodes),) = sent(member.receive("end", ShuffleReply(("x", "y", "z"))), Nodes)
    assert (peer, nodes.ttl) == ("end", member.params.join_ttl)
    offered = set(nodes.peers) & set(PEERS)
    assert {"x", "y", "z"} < member.passive
    assert len(member.passive) == 40
    assert set(PEERS) - offered < member.passive


def test_replies_bring_no_more_than_was_offered_and_only_one_counts() -> None:
    """E19: a reply can't fill the view; nor can a second, or one that nobody asked for."""
    member = full("a", "b", passive_size=40)
    assert drops(member.receive("x", ShuffleReply(("y",)))) == [DropReason.UNSOLICITED]
    _, shuffle = first_shuffle(member)
    flood = tuple(f"x{n}" for n in range(1000))
    member.receive("end", ShuffleReply(flood))
    assert 0 < len(member.passive & set(flood)) <= shuffle.offered + 1
    assert drops(member.receive("end", ShuffleReply(("y",)))) == [DropReason.UNSOLICITED]
    assert "y" not in member.passive


def test_shuffles_that_cannot_be() -> None:
    """E19: our own that comes back, too long a walk or a list."""
    member = full("a", "b")
    assert drops(member.receive("a", Shuffle(ME, 3, 1))) == [DropReason.ABOUT_SELF]
    flood = tuple(f"x{n}" for n in range(1000))
    ((_, passed_on),) = sent(member.receive("a", Shuffle("o", 10**6, 1000, flood)))
    assert passed_on.ttl == SHUFFLE_TTL - 1
    most = SHUFFLE_ACTIVE + SHUFFLE_PASSIVE
    assert (len(passed_on.peers), passed_on.offered) == (most, 0), "peers that go along are all"


def test_an_origin_that_is_gone_sends_nothing_any_more() -> None:
    member = full("a", "b")
    member.receive("a", Shuffle("origin", 0, 1))
    member.handle(ev.Connected("origin"))
    member.handle(ev.PeerDown("origin"))
    member.handle(ev.Connected("origin"))
    assert drops(member.receive("origin", Nodes(("x",), 6))) == [DropReason.UNSOLICITED]
