"""Lost connections, silent neighbours, dials that fail (E15)."""

from __future__ import annotations

from episub_router.protocol import events as ev
from episub_router.protocol.effects import DropReason, NeighborDown, Release
from episub_router.protocol.messages import Gossip, Graft, Join, Prune
from tests.protocol.helpers import Member, dials, drops, params, sent


def test_links_that_end_together_are_not_grafted() -> None:
    """E15, E40: the tree is repaired over the links that remain, not over those that ended in
    the same moment and may be closed by now."""
    member = Member("a", "b", "c", "d")
    member.receive("a", Gossip("m", 1, "payload"))
    for peer in "bcd":
        member.receive(peer, Prune())
    member.wait(40)
    member.receive("d", Prune())
    effects = member.wait(20)
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
    member = Member("n", passive=passive, membership=params(max_waiting=4))
    for n in range(50):
        effects = member.receive("hostile", Join(f"nobody{n}", 0))
    assert DropReason.UNREACHABLE in drops(effects)
    member.wait(30)
    assert member.passive == passive


def test_peers_that_cannot_be_dialled_leave_the_passive_view() -> None:
    """E15, E17: a failed dial forgets the peer, and the next one is dialled."""
    member = Member("n", passive="abcdefghij")
    tried = dials(member.wait(6))
    assert len(tried) == member.params.active_size - 1
    (following,) = dials(member.handle(ev.DialFailed(tried[0])))
    assert following not in tried
    assert member.passive == set("abcdefghij") - {tried[0]}
