"""What SDS promises, in the groups and at the moments in which it was broken once."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.message import MAX_LAMPORT
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.store.sqlite import MemoryStore, SqliteStore
from episub_router.sds.store.values import Cursor
from tests.sds.harness import CHANNEL, Group, Links, converge
from tests.sds.kills import killed


@pytest.mark.slow
def test_as_many_writers_as_speak_at_once_nobody_hears_an_answer_first() -> None:
    """With 64 heads named at most and 100 writers, 8.5 % of deliveries came before what their
    sender had seen."""
    group = Group(70, seed=4, links=Links(loss=0.1))
    for _ in range(2):
        for name in group.members:
            group.send(name, b"all at once")
        group.run(2.0)
    assert max(len(history) for history in group.history.values()) > 64
    assert group.settle(600.0) is not None
    group.check()


def test_two_hundred_kills_with_clocks_apart_lose_and_contradict_nothing() -> None:
    """A clock adopted on delivery and lost with a crash made 237 contradictions in 110 kills.

    The same with as many kills as wanted: `python -m tests.benchmarks.sds_kills --kills 10000`.
    """
    group = killed(200, seed=7)
    assert group.kills >= 200


@pytest.mark.parametrize(
    ("members", "messages", "loss", "most"), [(50, 25, 0.3, 15.0), (10, 200, 0.5, 30.0)]
)
def test_repair_without_direct_streams_takes_seconds(
    members: int, messages: int, loss: float, most: float
) -> None:
    """With 10 to 60 s to ask, the slowest in a hundred took 48 to 70 s at 10 % loss; where each
    request of anybody doubled the time to the next one, 213 s at 50 %."""
    group, _ = converge(members, messages, loss, streams=False, seed=1)
    delays = sorted(group.delays)
    assert delays[int(len(delays) * 0.99)] <= most


@pytest.mark.parametrize("size", [2, 5])
def test_what_was_fetched_is_acknowledged_too(size: int) -> None:
    """A message that others got over direct streams was resent six times, and expired."""
    group = Group(size, seed=1)
    ann, *others = group.members
    group.run(5.0)
    group.part({ann: 0} | dict.fromkeys(others, 1))
    sent = group.send(ann, b"written alone")
    group.run(3.0)
    group.heal()
    group.run(60.0)
    assert group.holders(ann, sent)
    assert group.published["resend"] <= 2


def test_what_an_outage_took_is_not_acknowledged_and_comes_in_the_end() -> None:
    """After 11 minutes by itself a member lacked a message for hours, and its author was told
    that it had it."""
    group = Group(3, seed=2)
    ann, bob, eve = group.members
    group.run(5.0)
    group.part({ann: 0, bob: 0, eve: 1})
    lost = group.send(ann, b"while eve is away")
    group.run(20.0)
    child = group.send(bob, b"an answer")
    member = group.members[eve]
    (stored,) = group.members[bob].store.get("0", [child or ""])
    message = group.codec.decode(stored.raw)
    group.arrive(bob, eve, message, stored.raw)  # the last that got through
    group.run(660.0)
    assert lost not in member.delivered
    group.send(eve, b"eve speaks")
    group.run(1.0)
    group.heal()
    group.run(2.0)
    assert eve not in group.holders(ann, lost) or lost in member.delivered
    assert group.settle(120.0) is not None
    assert lost in member.delivered
    assert not [n for n in member.notices if isinstance(n, fx.Lost)]
    group.check()


def test_what_was_given_up_in_company_is_not_acknowledged_and_still_comes() -> None:
    """Its author is away; the others give it up after `lost_after`, and say so."""
    group = Group(3, seed=2, params=SdsParams(ack_quorum=2))
    ann, bob, eve = group.members
    group.run(5.0)
    group.part({ann: 0, bob: 0, eve: 1})
    lost = group.send(ann, b"only bob gets it")
    group.run(20.0)
    child = group.send(bob, b"an answer")
    (stored,) = group.members[bob].store.get("0", [child or ""])
    group.crash(ann)
    group.members[bob].store = MemoryStore()
    group.crash(bob)
    group.part({ann: 2, bob: 1, eve: 1})
    group.start(bob)
    group.arrive(bob, eve, group.codec.decode(stored.raw), stored.raw)
    group.run(700.0)
    member = group.members[eve]
    assert fx.Lost(lost) in member.notices
    group.send(eve, b"eve goes on")
    group.part({ann: 1, bob: 1, eve: 1})
    group.start(ann)
    for _ in range(100):
        assert (eve in group.holders(ann, lost)) <= (lost in member.delivered)
        group.run(1.0)
    assert eve in group.holders(ann, lost)


def test_damaged_rows_are_named_and_come_back_from_the_others(tmp_path: Path) -> None:
    """What the application had already isn't delivered again."""
    group = Group(3, seed=1)
    names = sorted(group.members)
    member = group.members[names[0]]
    member.store = SqliteStore(tmp_path / "one.db")
    group.start(names[0])
    for n in range(10):
        group.send(names[n % 3], b"%d" % n)
        group.run(1.0)
    group.run(10.0)
    assert member.delivered
    before = list(member.delivered)
    newest = member.participant.log.places()[-1]
    member.store.set_reader(CHANNEL, Cursor(newest, 10))
    group.crash(names[0])
    member.store.close()
    with sqlite3.connect(tmp_path / "one.db") as db:
        db.execute("UPDATE message SET raw = x'FFFF' WHERE id IN (?, ?)", before[1:3])
    db.close()
    member.store = SqliteStore(tmp_path / "one.db")
    group.start(names[0])
    assert not {*before[1:3]} & {i for _, i in member.participant.log.places()}
    group.run(30.0)
    assert group.converged()
    reader = member.store.reader(CHANNEL)
    assert member.store.following(CHANNEL, reader, MAX_LAMPORT).stored is None
    assert len(member.store.get(CHANNEL, before)) == len(before)
    member.store.close()
