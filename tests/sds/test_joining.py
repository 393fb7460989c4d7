"""Newcomers that want the last messages only, or none of those that there are."""

from __future__ import annotations

import pytest

from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.entry import Key
from episub_router.sds.store.sqlite import MemoryStore, SqliteStore
from tests.sds.harness import Group, Links
from tests.sds.one import WALL, One, made, of

ANN, BOB, EVE = (f"member-{n:02}" for n in range(3))


def with_newcomer(before: int, last: int, *, loss: float = 0.0, streams: bool = True) -> Group:
    """Ann and Bob have talked; Eve comes, and all talk on."""
    group = Group(
        3,
        seed=5,
        links=Links(loss=loss, streams=streams),
        store=lambda: SqliteStore(":memory:"),
    )
    group.crash(EVE)
    group.members[EVE].store = MemoryStore()
    for n in range(before):
        group.send((ANN, BOB)[n % 2], b"%d" % n)
        group.run(0.7)
    group.run(60.0)
    group.join_last[EVE] = last
    group.start(EVE)
    group.run(20.0)
    for n in range(30):
        group.send((ANN, BOB, EVE)[n % 3], b"later %d" % n)
        group.run(0.7)
    group.run(120.0)
    return group


@pytest.mark.parametrize(
    ("before", "last", "loss"),
    [(60, 0, 0.0), (60, 0, 0.2), (60, 7, 0.2), (60, 40, 0.0), (20, 1000, 0.0), (0, 5, 0.0)],
)
def test_a_newcomer_gets_so_many_of_what_there_is_and_all_that_follows(
    before: int, last: int, loss: float
) -> None:
    group = with_newcomer(before, last, loss=loss)
    logs = {n: m.participant.log.places() for n, m in group.members.items()}  # type: ignore[union-attr]
    assert logs[ANN] == logs[BOB]
    assert len(logs[ANN]) == before + 30
    assert logs[EVE] == logs[ANN][-(min(before, last) + 30) :]
    member = group.members[EVE]
    assert set(member.delivered) == {i for _, i in logs[EVE]} - set(member.sent)
    assert not [n for n in member.notices if isinstance(n, fx.Lost)]
    assert not len(member.participant.wants)  # type: ignore[union-attr]
    assert group.requests < 400


def test_without_direct_streams_a_newcomer_begins_with_what_it_hears_first() -> None:
    group = with_newcomer(50, 0, loss=0.1, streams=False)
    group.run(200.0)
    ann, eve = (group.members[n].participant.log.places() for n in (ANN, EVE))  # type: ignore[union-attr]
    assert eve == ann[-len(eve) :]
    assert 25 <= len(eve) <= 30


def test_what_a_newcomer_never_had_is_not_acknowledged() -> None:
    group = with_newcomer(20, 0)
    for n, sent in enumerate(group.members[ANN].sent):
        assert (EVE in group.holders(ANN, sent)) <= (n >= 10)
    assert EVE in group.holders(ANN, sent)


def test_where_a_log_begins_survives_a_restart() -> None:
    group = with_newcomer(30, 5)
    before = group.members[EVE].participant.log.places()  # type: ignore[union-attr]
    group.crash(EVE)
    group.run(10.0)
    group.start(EVE)
    group.run(200.0)
    assert group.members[EVE].participant.log.places() == before  # type: ignore[union-attr]
    assert len(before) == 35


def test_no_clock_of_a_first_message_keeps_the_others_out() -> None:
    """Without direct streams the first message says where a newcomer begins."""
    one = One(join_last=0)
    assert one.drops(one.hear("far", lamport=2**64 - 1)) == [fx.DiscardReason.CLOCK_AHEAD]
    one.hear("tomorrow", lamport=WALL + 86_000_000, sender_id="liar")
    one.hear("m", lamport=WALL + 100)
    assert one.log == ["m", "tomorrow"]


def newcomer(**said: list[Key]) -> One:
    """One that wants what follows, after peers have said what their newest messages are."""
    one = One(join_last=0)
    for peer in said:
        one.participant.peer_up(peer, one.now)
    for _ in range(100):
        asks = of(one.wait(0.1), fx.AskRange)
        while asks:
            ask = asks.pop()
            assert (ask.newest_first, ask.ids_only, ask.limit) == (True, True, 1)
            newest = tuple(said[ask.peer])
            effects = one.range_answered(ask.peer, newest, None)
            one.seen += effects
            asks += of(effects, fx.AskRange)
    return one


def test_a_place_that_cannot_be_true_is_not_believed() -> None:
    """With it a liar would keep everybody's messages out."""
    one = newcomer(liar=[(WALL + 2 * 86_400_000, "x")])
    assert not [e for e in one.seen if isinstance(e, fx.JoinedAt)]
    one.hear("m", lamport=WALL + 100)
    assert one.log == ["m"]


@pytest.mark.parametrize("claim", [[], [(1, "x")], [(WALL + 80_000_000, "x")]])
def test_one_liar_in_three_decides_nothing(claim: list[Key]) -> None:
    """0 of 50 messages came in 2 of 10 runs."""
    one = newcomer(liar=claim, ann=[(WALL - 50, "a")], bob=[(WALL - 40, "b")])
    (joined,) = [e for e in one.seen if isinstance(e, fx.JoinedAt)]
    assert WALL - 50 <= joined.since <= WALL - 40


def test_no_place_of_a_peer_is_in_the_future() -> None:
    one = newcomer(liar=[(WALL + 86_000_000, "x")])
    one.hear("m", lamport=WALL + 20_000)
    assert one.log == ["m"]


def test_a_message_that_comes_before_the_place_is_known_waits_for_it() -> None:
    one = One(join_last=0)
    one.participant.peer_up("peer", one.now)
    one.wait(1.5)
    assert one.drops(one.hear("m", lamport=WALL + 100)) == [fx.DiscardReason.JOINING]
    one.range_answered("peer", ((WALL + 50, "old"),), None)
    one.wait(5.0)
    one.hear("m", lamport=WALL + 100)
    assert one.log == ["m"]
    assert one.drops(one.hear("old", lamport=WALL + 50)) == [fx.DiscardReason.TOO_OLD]


def test_a_newcomer_that_speaks_first_keeps_what_it_said() -> None:
    one = One(join_last=0)
    one.participant.peer_up("peer", one.now)
    first, _ = one.send(b"here I am")
    one.wait(1.5)
    one.range_answered("peer", ((WALL + 10**6, "new"),), None)
    one.wait(5.0)
    assert one.log == [first]
    one.take(made("new", first, lamport=WALL + 10**6))
    assert one.log == [first, "new"]
