"""Lost connections, silent neighbours, dials that fail (E15)."""

from __future__ import annotations

from episub_router.protocol import events as ev
from episub_router.protocol.effects import (
    DownReason,
    DropReason,
    Effect,
    NeighborDown,
    Release,
)
from episub_router.protocol.hyparview.neighbor import REFUSED_BACKOFF_IN_NEED
from episub_router.protocol.hyparview.overlay import MAX_DIALS, MAX_DIALS_FOR_OTHERS
from episub_router.protocol.messages import (
    Disconnect,
    Gossip,
    Graft,
    Join,
    LinkKind,
    Neighbor,
    Prune,
)
from tests.protocol.helpers import Member, dials, drops, request, sent


def test_links_that_end_together_are_not_grafted() -> None:
    """E15, E40: the tree is repaired over the links that remain, not over those that ended in
    the same moment and may be closed by now."""
    member = Member("a", "b", "c", "d")
    member.receive("a", Gossip("m", 1, "payload"))
    for peer in "bcd":
        member.receive(peer, Prune())
    effects: list[Effect] = []
    while len(member.active) > 1:
        member.receive("d", Prune())
        effects = member.wait(1)
    ended = {effect.peer for effect in effects if isinstance(effect, NeighborDown)}
    assert ended == {"a", "b", "c"}
    assert sent(effects, Graft) == [("d", Graft())]


def test_failed_dial_to_a_peer_that_dialled_us_changes_nothing() -> None:
    """E15: two peers that dial each other need one connection, not two; what was waiting for it
    goes on."""
    member = Member()
    assert dials(member.handle(ev.JoinOverlay(("a",)))) == ["a"]
    member.handle(ev.Connected("a"))
    member.link("a")
    member.handle(ev.DialFailed("a"))
    assert member.active == {"a"}
    assert Release("a") in member.handle(ev.LeaveOverlay())


def test_full_dial_table_costs_no_passive_peers() -> None:
    """E15, E17: peers that could not be dialled because too much was under way (here: the JOINs
    of peers that can't be reached) are not taken for dead."""
    passive = {f"p{n}" for n in range(20)}
    member = Member("n", passive=passive)
    for n in range(MAX_DIALS):
        effects = member.receive("n", Join(f"nobody{n}", 0))
    assert DropReason.UNREACHABLE in drops(effects)
    member.wait(30)
    assert member.passive == passive


def test_peers_that_cannot_be_dialled_leave_the_passive_view() -> None:
    """E15, E17: a failed dial forgets the peer, and the next one is dialled."""
    member = Member("n", passive="abcdefghij")
    tried = dials(member.wait(2.5))
    assert len(tried) == member.params.active_size - 1
    (following,) = dials(member.handle(ev.DialFailed(tried[0])))
    assert following not in tried
    assert member.passive == set("abcdefghij") - {tried[0]}


def test_lost_connection_ends_the_link_at_once() -> None:
    """E15: the peer is in neither view any more, broadcast knows, and no one sends to it."""
    member = Member("a", "b")
    effects = member.handle(ev.PeerDown("a"))
    assert NeighborDown("a", DownReason.FAILED, silent_since=0.0) in effects
    assert member.active == {"b"}
    assert "a" not in member.passive
    assert set(member.machine.broadcast.eager) == {"b"}
    assert [peer for peer, _ in sent(effects + member.wait(100))].count("a") == 0


def test_lost_connection_of_a_peer_that_was_asked_counts_as_a_refusal() -> None:
    """E15, E17: its answer is not waited for."""
    member = Member("a", "b", "c", passive=["p", "q"])
    (asked, *_) = dials(member.wait(6))
    member.handle(ev.Connected(asked))
    member.handle(ev.PeerDown(asked))
    member.handle(ev.Connected(asked))
    effects = member.wait(REFUSED_BACKOFF_IN_NEED - 2)
    assert asked not in [peer for peer, _ in sent(effects, Neighbor)]


def test_a_node_with_its_random_links_asks_no_more_than_it_misses_in_one_period() -> None:
    """E17: "they don't go out of their way" for links beyond C_rand: a refusal waits for the
    next period."""
    member = Member(*"abcdefg", passive=["p", "q"])
    (asked,) = dials(member.wait(3))
    member.handle(ev.Connected(asked))
    assert dials(member.receive(asked, Disconnect())) == []


def test_lost_connection_of_a_peer_being_measured_ends_its_request() -> None:
    """E10, E15: it is not admitted on a round trip that ended too late."""
    member = Member("a", "b", "c", "d")
    for peer in "efgh":
        member.link(peer, LinkKind.NEAR, 8, 8)
        member.handle(ev.RttMeasured(peer, 0.5))
    member.receive("p", request(8))
    member.handle(ev.PeerDown("p"))
    member.handle(ev.RttMeasured("p", 0.001))
    assert member.active == set("abcdefgh")


def test_what_waits_for_a_dial_ends_with_it() -> None:
    """E15: dials are remembered up to a bound, and none is left over."""
    member = Member("a")
    for start in ("x", "y"):
        names = [f"{start}{n}" for n in range(40)]
        effects = [e for name in names for e in member.receive("a", Join(name, 0))]
        assert dials(effects) == names[:MAX_DIALS_FOR_OTHERS]
        for name in names[:MAX_DIALS_FOR_OTHERS]:
            member.handle(ev.DialFailed(name))


def test_one_dial_serves_all_that_wait_for_it_up_to_a_bound() -> None:
    """E15: a peer isn't dialled twice at once, and a flood of JOINs for it piles nothing up."""
    member = Member("a", "b")
    effects = [e for _ in range(100) for e in member.receive("a", Join("x", 0))]
    assert dials(effects) == ["x"]
    assert drops(effects).count(DropReason.UNREACHABLE) > 80
    member.handle(ev.Connected("x"))
    assert member.active == {"a", "b", "x"}
