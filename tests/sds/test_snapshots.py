"""Newcomers that begin with a snapshot that members have signed."""

from __future__ import annotations

import hashlib
import random

import pytest

from episub_router.sds.net.exchange import look_up
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.message import Message
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.snapshots import Snapshots
from episub_router.sds.store.sqlite import MemoryStore
from tests.sds.harness import CHANNEL, OFFSET, Group

ANN, BOB, CAT, EVE = (f"member-{n:02}" for n in range(4))
PARAMS = SdsParams(page_bytes=1000)
"""A snapshot takes several answers."""


def state_of(group: Group, until: int) -> bytes:
    """What the application made of all messages up to a clock, which is larger than a page."""
    participant = group.members[ANN].participant
    keys = participant.log.places(None, (until + 1, ""))
    return random.Random(repr(keys)).randbytes(5000)


def give(group: Group, name: str, until: int, state: bytes) -> None:
    member = group.members[name]
    digest = hashlib.sha256(state).digest()
    effects = member.participant.give_snapshot(until, digest, state, group.now)
    for effect in effects:
        if isinstance(effect, fx.Logged):
            group.sent_at[effect.message.message_id] = group.now
            member.sent.append(effect.message.message_id)
            group.truth.sent(name, effect.message.message_id, effect.entry.lamport)
            group.history[effect.message.message_id] = tuple(
                group.codec.decode(effect.raw).history_ids
            )
    group._carry_out(member, effects)


def talked(*, honest: int = 3) -> tuple[Group, int, bytes]:
    """Three members have talked, and so many gave a snapshot of the first part of it."""
    group = Group(4, seed=7, params=PARAMS)
    group.crash(EVE)
    group.members[EVE].store = MemoryStore()
    for n in range(60):
        group.send((ANN, BOB, CAT)[n % 3], b"%d" % n)
        group.run(0.7)
    group.run(20.0)
    until = int((group.now + OFFSET) * 1000) - 10_000
    state = state_of(group, until)
    for name in (ANN, BOB, CAT)[:honest]:
        give(group, name, until, state)
        group.run(1.0)
    group.run(20.0)
    return group, until, state


def join(group: Group, signers: int) -> list[fx.SnapshotKept]:
    group.join_snapshot[EVE] = signers
    group.start(EVE)
    group.run(60.0)
    return group.members[EVE].store.snapshots(CHANNEL)


def test_a_newcomer_takes_what_so_many_members_have_signed_and_all_that_follows() -> None:
    group, until, state = talked()
    for n in range(10):
        group.send((ANN, BOB)[n % 2], b"later %d" % n)
        group.run(0.7)
    (kept,) = join(group, 3)
    assert (kept.until, kept.state) == (until, state)
    ann, eve = group.members[ANN].participant, group.members[EVE].participant
    assert eve.log.places() == [key for key in ann.log.places() if key[0] > until]
    assert len(eve.log) == 13
    assert not [n for n in group.members[EVE].notices if isinstance(n, fx.Lost)]
    group.crash(EVE)
    group.start(EVE)
    group.run(5.0)
    again = group.members[EVE].participant
    assert (again.joining, again.log.since) == (False, until)


@pytest.mark.parametrize("honest", [0, 1, 2])
def test_without_enough_signers_a_newcomer_takes_everything(honest: int) -> None:
    group, _, _ = talked(honest=honest)
    assert join(group, 3) == []
    ann, eve = group.members[ANN].participant, group.members[EVE].participant
    assert eve.log.places() == ann.log.places()


def test_a_state_that_fewer_members_made_up_is_not_taken() -> None:
    """Two of them sign another one, which is newer."""
    group, until, state = talked(honest=3)
    for name in (BOB, CAT):
        give(group, name, until + 5000, b"made up")
        group.run(1.0)
    group.run(20.0)
    (kept,) = join(group, 3)
    assert (kept.until, kept.state) == (until, state)


def test_an_altered_state_is_no_snapshot() -> None:
    group, until, state = talked()
    digest = hashlib.sha256(state).digest()
    for name in (ANN, BOB):
        altered = fx.SnapshotKept(until, digest, b"x" + state[1:])
        group.members[name].store.commit(CHANNEL, [altered])
    group.join_snapshot[EVE] = 3
    group.start(EVE)
    group.run(60.0)
    kept = group.members[EVE].store.snapshots(CHANNEL)
    assert all(s.state == state for s in kept)
    eve = group.members[EVE].participant
    assert not eve.joining


def test_members_forget_what_a_snapshot_stands_for() -> None:
    group, until, _ = talked()
    for name in (ANN, BOB, CAT):
        member = group.members[name]
        group._carry_out(member, member.participant.forget(until))
        assert member.store.count(CHANNEL) == len(member.participant.log) == 3
    group.send(ANN, b"on")
    group.run(100.0)
    join(group, 3)
    for name in (ANN, BOB, CAT, EVE):
        participant = group.members[name].participant
        assert len(participant.log) == 4
    assert not [n for m in group.members.values() for n in m.notices if isinstance(n, fx.Lost)]


def test_statements_are_bounded_and_about_the_past() -> None:
    snapshots = Snapshots()

    def say(sender: str, until: int, digest: bytes = b"d", lamport: int = 1000) -> None:
        snapshots.note(
            Message(
                message_id=f"{sender} {until}",
                channel_id="0",
                sender_id=sender,
                lamport=lamport,
                content=digest,
                snapshot=until,
            )
        )

    for until in range(100, 110):
        say("a", until)
    say("b", 109)
    say("b", 2000)
    say("c", 109, b"other")
    (agreed,) = snapshots.agreed(2)
    assert (agreed.until, agreed.statements) == (109, ("a 109", "b 109"))
    assert [each.until for each in snapshots.agreed(1)] == [109, 109, 108]
    for n in range(5000):
        say(f"made up {n}", 500)
    assert sum(len(each.statements) for each in snapshots.agreed(1)) <= 2 * 4096


def test_who_has_none_answers_with_none() -> None:
    store = MemoryStore()
    store.load("0", "me", 10)
    answer = look_up(store, "0", PARAMS, fx.AskSnapshot("", 1))
    assert (answer.items, answer.state, answer.state_size) == ((), b"", 0)
