"""What deeds earn and cost, and how long that lasts."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol import standing as rules
from episub_router.protocol.effects import (
    Ban,
    Dial,
    DownReason,
    DropReason,
    Effect,
    NeighborDown,
)
from episub_router.protocol.messages import Disconnect, ForwardJoin, Gossip, Join
from episub_router.protocol.params import BroadcastParams, EpisubParams
from episub_router.protocol.piece_messages import Piece, PieceAnnounce, PieceOffer, TreeOffer
from episub_router.protocol.pieces.cutting import cut
from episub_router.protocol.standing import MAX_STANDINGS, Standings
from episub_router.protocol.topic import Topic
from tests.protocol.helpers import ME, Member, drops, ihave, request, sent


def test_a_standing_is_the_sum_of_deeds_within_bounds() -> None:
    standings = Standings()
    assert standings.of("a", 0.0) == 0.0
    standings.add("a", rules.FIRST_COPY, 0.0)
    standings.add("a", rules.KEPT_PROMISE, 0.0)
    assert standings.of("a", 0.0) == 2.0
    for _ in range(100):
        standings.add("a", rules.FIRST_COPY, 0.0)
        standings.add("b", rules.BROKEN_PROMISE, 0.0)
    assert standings.all(0.0) == {"a": rules.MOST, "b": rules.LEAST}


@pytest.mark.parametrize("earned", [6.0, -6.0])
def test_it_is_forgotten_good_or_bad(earned: float) -> None:
    standings = Standings()
    standings.add("a", earned, 0.0)
    assert standings.of("a", rules.HALF_LIFE) == pytest.approx(earned / 2)
    standings.add("a", earned, rules.HALF_LIFE)
    assert standings.of("a", rules.HALF_LIFE) == pytest.approx(1.5 * earned)


def test_who_breaks_promises_is_bad_and_then_condemned() -> None:
    standings, verdicts = Standings(), []
    for _ in range(12):
        standings.add("a", rules.BROKEN_PROMISE, 0.0)
        verdicts.append((standings.is_bad("a", 0.0), standings.is_condemned("a", 0.0)))
    assert verdicts[1] == (False, False)
    assert verdicts[2] == (True, False)
    assert verdicts[-1] == (True, True)


def test_frames_that_are_lost_condemn_nobody() -> None:
    """5 % in each direction: one of ten promises is broken, one of five where all goes wrong."""
    standings = Standings()
    for n in range(1, 1000):
        broken = n % 5 == 0
        standings.add("a", rules.BROKEN_PROMISE if broken else rules.KEPT_PROMISE, n * 0.1)
        assert not standings.is_bad("a", n * 0.1)


def test_the_application_has_the_last_word() -> None:
    standings = Standings()
    standings.set("a", -100.0)
    assert standings.is_condemned("a", 0.0)
    standings.add("a", rules.FIRST_COPY, 0.0)
    assert standings.of("a", 10_000.0) == pytest.approx(-100.0)
    standings.set("a", 0.0)
    assert not standings.is_bad("a", 0.0)
    standings.set("b", 1000.0)
    for _ in range(100):
        standings.add("b", rules.FORGED_PAYLOAD, 0.0)
    assert not standings.is_bad("b", 0.0)
    standings.set("b", 0.0)
    assert standings.is_condemned("b", 0.0)
    standings.forgive("b")
    assert standings.of("b", 0.0) == 0.0


def test_made_up_peers_take_no_room() -> None:
    standings = Standings()
    standings.add("a", rules.FORGED_PAYLOAD, 0.0)
    for n in range(2 * MAX_STANDINGS):
        standings.add(n, rules.FORGED_PAYLOAD, 0.0)
        standings.add("a", rules.FORGED_PAYLOAD, 0.0)
    assert len(standings.all(0.0)) == MAX_STANDINGS
    assert standings.is_condemned("a", 0.0)


# Bans: the link ends, there is none for a while, and the driver has a say


def forge(member: Member, peer: str, count: int) -> list[Effect]:
    effects = []
    for id in range(count):
        member.handle(ev.PayloadArrived(peer, id, 1))
        effects += member.handle(ev.PayloadRejected(peer, id, forged=True))
    return effects


def test_a_forger_is_banned() -> None:
    member = Member("a", "b", "c")
    assert Ban("a", rules.BAN_TIME) not in forge(member, "a", 4)
    effects = forge(member, "a", 1)
    assert Ban("a", rules.BAN_TIME) in effects
    assert NeighborDown("a", DownReason.BANNED) in effects
    assert ("a", Disconnect()) in sent(effects)
    assert member.active == {"b", "c"}
    assert "a" not in member.passive


def test_a_validator_s_refusals_cost_nothing() -> None:
    """An honest neighbour may have another validator."""
    member = Member("a", "b")
    for id in range(100):
        member.handle(ev.PayloadArrived("a", id, 1))
        member.handle(ev.PayloadRejected("a", id))
    assert member.machine.broadcast.standings.of("a", member.now) == 0


def test_one_that_announces_and_never_delivers_is_banned() -> None:
    member = Member("a", "b", "c")
    bans: list[Effect] = []
    for id in range(60):
        member.receive("a", ihave(id))
        bans += [effect for effect in member.wait(1) if isinstance(effect, Ban)]
    assert bans == [Ban("a", rules.BAN_TIME)]
    assert "a" not in member.active


def test_a_banned_peer_gets_no_link_till_the_ban_is_over() -> None:
    member = Member("a", "b")
    forge(member, "a", 5)
    for message in (request(0), Join("a", 0)):
        effects = member.receive("a", message)
        assert drops(effects) == [DropReason.FROM_BANNED]
        assert sent(effects) == [("a", Disconnect())]
    assert drops(member.receive("a", Gossip("m", 1, "payload"))) == [DropReason.FROM_BANNED]
    assert member.receive("a", Disconnect()) != [("a", Disconnect())]
    member.receive("b", ForwardJoin("a", 0))
    assert "a" not in member.passive
    assert Dial("a", True) not in member.receive("b", Join("a", 0))
    member.now += rules.BAN_TIME + 1
    member.receive("a", request(0))
    assert "a" in member.active


def test_the_driver_is_asked_first() -> None:
    asked = []

    def may_ban(peer: object) -> bool:
        asked.append(peer)
        return False

    member = Member()
    member.machine = Topic(ME, "t", EpisubParams(), Random(0), may_ban=may_ban)
    member.handle(ev.JoinOverlay())
    member.link("a")
    effects = forge(member, "a", 5)
    assert asked == ["a"]
    assert not any(isinstance(effect, Ban) for effect in effects)
    assert "a" in member.active
    assert member.machine.broadcast.standings.of("a", member.now) == 0


def test_the_application_can_ban_and_protect() -> None:
    member = Member("a", "b")
    member.handle(ev.StandingSet("b", 1000.0))
    forge(member, "b", 20)
    assert member.active == {"a", "b"}
    assert Ban("a", rules.BAN_TIME) in member.handle(ev.StandingSet("a", -1000.0))
    assert member.active == {"b"}


# Pieces and preambles that no correct peer passes on


PREAMBLE, PIECES = cut("id", "source", bytes(50_000))
BAD = replace(PIECES[0], data=b"x" * PIECES[0].size)


def child_of(parent: str, *others: str) -> Member:
    """A member that gets the pieces of one message from `parent`."""
    member = Member(parent, *others, broadcast=BroadcastParams(piece_threshold=1))
    for peer in (parent, *others):
        member.receive(peer, PieceOffer())
    member.receive(parent, PieceAnnounce(PREAMBLE, 0, 1))
    member.receive(parent, PieceOffer((TreeOffer("source", 0),)))
    member.receive(parent, PieceOffer((TreeOffer("source", 0),), accepted=True))
    return member


def standing(member: Member, peer: str) -> float:
    return member.machine.broadcast.standings.of(peer, member.now)


@pytest.mark.parametrize("bad", [BAD, replace(PIECES[0], index=PREAMBLE.count)])
def test_one_bad_piece_is_enough_for_a_ban(bad: Piece) -> None:
    """Each node checks a piece before it passes it on."""
    member = child_of("a", "b")
    effects = member.receive("a", bad)
    assert DropReason.PIECE_INVALID in drops(effects)
    assert Ban("a", rules.BAN_TIME) in effects
    assert member.active == {"b"}
    assert [peer for peer, _ in sent(effects, Disconnect)] == ["a"]


def test_pieces_that_come_late_cost_nothing() -> None:
    """They were on their way, or another was faster."""
    member = child_of("a")
    member.receive("a", PIECES[0])
    member.receive("a", PIECES[0])
    member.receive("a", replace(PIECES[1], id="unknown"))
    assert standing(member, "a") == 0


def test_a_preamble_without_room_costs_nothing() -> None:
    member = child_of("a", "b")
    for number in range(100):
        member.receive("a", PieceAnnounce(replace(PREAMBLE, id=number), 0, 1))
    member.receive("a", PieceAnnounce(replace(PREAMBLE, root=bytes(32)), 0, 1))
    assert standing(member, "a") == 0


def test_a_whole_message_that_validators_refuse_costs_nobody() -> None:
    """Its author signed what it is made of; those that passed it on couldn't tell."""
    member = child_of("a")
    for piece in PIECES:
        member.receive("a", piece)
    member.handle(ev.PayloadRejected("a", "id"))
    assert standing(member, "a") == 0
