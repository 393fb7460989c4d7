"""Bans: the link ends, there is none for a while, and the driver has a say."""

from __future__ import annotations

from random import Random

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
from episub_router.protocol.params import EpisubParams
from episub_router.protocol.topic import Topic
from tests.protocol.helpers import ME, Member, drops, ihave, request, sent


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
