"""Catching up: few round trips for a hole, all of a long log, whoever serves it (S15)."""

from __future__ import annotations

import hashlib

import pytest

from episub_router.sds.net.exchange import look_up
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.effects import Effect, Response
from episub_router.sds.protocol.entry import LogEntry, RangeHash
from episub_router.sds.protocol.log import Log
from episub_router.sds.protocol.message import Way
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.ranges import LEAF, LogComparison, compare
from episub_router.sds.store.sqlite import MemoryStore
from episub_router.sds.wire.exchange import Request, encode_request, encode_response
from tests.sds.harness import Group, Links
from tests.sds.one import WALL, One, made, of

SALT = bytes(16)
LONG_AGO = WALL - 60_000


def log_of(places: list[tuple[int, str]]) -> Log:
    log = Log()
    for lamport, message_id in places:
        log.add(message_id, LogEntry(lamport, "s", 0), (), head=False)
    return log


def test_parts_cover_the_range_and_agree_between_equal_logs() -> None:
    places = [(n // 3, f"{n % 3}" * 5 + f"{n}") for n in range(1000)]
    one, other = log_of(places), log_of(list(reversed(places)))
    parts = one.split(SALT, None, None, 16)
    assert sum(count for _, count, _ in parts) == 1000
    after = None
    for until, count, value in parts:
        assert other.summary(SALT, after, until) == (count, value)
        after = until


def test_a_bound_lies_between_two_ids_of_which_one_begins_the_other() -> None:
    log = log_of([(5, "a"), (5, "ab"), (5, "abc"), (5, "b")])
    parts = log.split(SALT, None, None, 4)
    assert [count for _, count, _ in parts] == [1, 1, 1, 1]
    after = None
    for until, count, value in parts:
        assert log.summary(SALT, after, until) == (count, value)
        after = until


def test_no_choice_of_messages_makes_another_salt_agree() -> None:
    one, other = log_of([(n, f"a{n}") for n in range(9)]), log_of([(n, f"b{n}") for n in range(9)])
    for salt in (SALT, bytes(15) + b"1"):
        assert one.summary(salt, None, None) != other.summary(salt, None, None)
    assert one.summary(SALT, None, None) != one.summary(bytes(15) + b"1", None, None)


def test_eviction_moves_the_range_that_is_compared() -> None:
    places = [(n, f"m{n}") for n in range(5000)]
    one, other = log_of(places), log_of(places)
    for _ in range(3000):
        other.evict()
    assert [key[1] for key in other.places()[-2:]] == ["m4998", "m4999"]
    assert other.places((3000, ""), (3002, "")) == [(3000, "m3000"), (3001, "m3001")]
    count, value = one.summary(SALT, None, None)
    answer = compare(other, SALT, [RangeHash(None, None, count, value)], 2000)
    (part,) = answer.parts
    assert (part.after, part.count) == ((2999, "m2999"), 2000)
    assert one.summary(SALT, part.after, part.until) == (part.count, part.hash)


def filled(count: int, **options: object) -> Group:
    group = Group(2, seed=1, **options)  # type: ignore[arg-type]
    group.run(5.0)
    names = sorted(group.members)
    group.part({names[0]: 0, names[1]: 1})
    for n in range(count):
        group.send(names[0], b"%d" % n)
    group.run(2.0)  # all that was broadcast is lost
    newcomer = group.members[names[1]].participant
    assert not len(newcomer.log)
    return group


def fill_hole(count: int, hole: int) -> tuple[int, int]:
    """Two logs, of which one lacks a message: round trips until it comes, and their bytes."""
    ids = [hashlib.sha256(b"%d" % n).hexdigest() for n in range(count)]
    server = log_of([(WALL + n // 2, i) for n, i in enumerate(ids)])
    one = One()
    for n, message_id in enumerate(ids):
        if n != hole:
            entry = LogEntry(WALL + n // 2, "s", 0)
            one.participant.log.add(message_id, entry, (), head=n == count - 1)
    one.participant.peer_up("p", one.now)
    effects = one.wait(2.0)
    requests = size = 0
    while not of(effects, fx.AskIds):
        (asked,) = of(effects, fx.AskCompare)
        answer = compare(server, asked.salt, asked.ranges, count)
        requests += 1
        size += len(encode_request(Request("t", "0", asked)))
        size += len(encode_response(Response(comparison=answer)))
        effects = one.compared("p", answer)
    (ask,) = of(effects, fx.AskIds)
    assert ask.ids == (ids[hole],)
    size += len(encode_request(Request("t", "0", ask)))
    return requests + 1, size


def compared_as(one: One, peer: str, of_log: Log) -> LogComparison:
    whole = RangeHash(None, None, *of_log.summary(SALT, None, None))
    return one.participant.compare(fx.AskCompare(peer, SALT, (whole,)), len(of_log), one.now)


def asks_in(one: One, seconds: float) -> int:
    """Comparisons in that time, each of which finds logs equal."""
    end, asks = one.now + seconds, 0
    while one.now < end:
        effects = one.wait(1.0)
        for _ in of(effects, fx.AskCompare):
            asks += 1
            one.compared("p", LogComparison())
    return asks


def test_a_peer_that_compared_and_has_the_same_is_not_asked_too() -> None:
    one = One()
    one.hear("a")
    one.participant.peer_up("p", one.now)
    assert asks_in(one, 2.0) == 1
    same, more = log_of([(WALL, "a")]), log_of([(WALL, "a"), (WALL + 1, "b")])
    assert compared_as(one, "p", same) == LogComparison()
    assert asks_in(one, 76.0) == 0
    assert asks_in(one, 400.0) > 0, "what it said is old"
    assert compared_as(one, "p", more).keys
    assert asks_in(one, 700.0) > 0, "it had something else"
    compared_as(one, "p", same)
    one.hear("b", "a")
    assert asks_in(one, 700.0) > 0, "we have something new"
    compared_as(one, "stranger", one.participant.log)
    assert asks_in(one, 700.0) > 0, "nobody speaks for another peer"


def test_a_newcomer_asks_a_peer_that_compared_with_its_empty_log() -> None:
    one = One()
    one.participant.peer_up("p", one.now)
    (asked,) = of(one.wait(2.0), fx.AskCompare)
    one.participant.failed(asked, one.now)
    compared_as(one, "p", log_of([(WALL, "a")]))
    assert asks_in(one, 76.0) == 1


def test_an_answer_is_awaited_until_it_comes_or_the_comparison_is_over() -> None:
    one = One()
    one.hear("a")
    one.participant.peer_up("p", one.now)
    asked = of(one.wait(2.0), fx.AskCompare)
    assert [one.participant.awaits(a) for a in asked] == [True]
    one.compared("p", LogComparison())
    assert not one.participant.awaits(asked[0])
    one.hear("c", "b")
    missing = fx.AskIds("p", ("b",))
    assert one.participant.awaits(missing)
    one.hear("b")
    assert not one.participant.awaits(missing)


def test_comparisons_of_many_channels_come_together() -> None:
    times = set()
    for n in range(100):
        one = One()
        one.now += n / 10
        one.hear("a")
        one.participant.peer_up("p", one.now)
        asks_in(one, 2.0)
        times.add(one.participant._catchup.next())
    assert 1 < len(times) < 25


def test_one_hole_in_fifty_thousand_costs_few_round_trips_and_bytes() -> None:
    requests, size = fill_hole(50_000, 31_415)
    assert requests <= 6
    assert size < 4000


def test_a_newcomer_on_a_fast_link_gets_everything_in_spite_of_the_request_limit() -> None:
    group = filled(900, links=Links(delay=(0.0005, 0.001)), params=SdsParams(page_items=5))
    group.heal()
    took = group.settle(60.0)
    assert took < 900 / 5 / 20 + 10


def test_what_pages_will_bring_is_not_asked_for_by_id() -> None:
    """The server resends 512 messages meanwhile, and each names a past that is on its way."""
    group = filled(2000, links=Links(delay=(0.5, 0.5)), params=SdsParams(page_items=100))
    group.heal()
    requests = group.requests
    took = group.settle(60.0)
    assert group.published["resend"] > 100
    assert took < 2000 / 100 + 10
    assert group.requests - requests < 2000 / 100 + 10


def test_what_a_page_was_to_bring_is_asked_for_by_id_when_it_does_not_come() -> None:
    one = One(pull_timeout=100.0)
    for peer in ("slow", "other"):
        one.participant.peer_up(peer, one.now)
    (asked,) = of(one.wait(2.0), fx.AskCompare)
    parts = (RangeHash(None, None, 1000, SALT),)
    effects = one.compared(asked.peer, LogComparison(parts))
    assert of(effects, fx.AskRange)
    one.hear("child", "missing")
    assert not of(one.wait(50.0), fx.AskIds)
    assert of(one.wait(15.0), fx.AskIds)[0].ids == ("missing",)


def test_pages_are_as_long_as_a_slow_link_brings_in_time() -> None:
    """A first page of 500 would take 50 s on this link, and a request is given up after 10."""
    keys = [(WALL + n, f"m{n:04}") for n in range(2000)]
    server, link = log_of(keys), 10.0  # messages/s
    one = One()
    start = one.now
    one.participant.peer_up("p", one.now)
    effects: list[Effect] = []
    while len(one.log) < len(keys):
        assert one.now - start < 1.5 * len(keys) / link
        asked = [e for e in effects if isinstance(e, fx.AskCompare | fx.AskRange)]
        effects = one.wait(0.5) if not asked else []
        for ask in asked:
            if isinstance(ask, fx.AskCompare):
                answer = compare(server, ask.salt, ask.ranges, len(keys))
                effects += one.compared("p", answer)
            elif ask.limit > 10.0 * link:
                effects += one.wait(10.0)
                one.participant.failed(ask, one.now)
            else:
                places = server.places(ask.after, ask.until)
                page = places[: ask.limit]
                one.now += len(page) / link
                for lamport, message_id in page:
                    one.take(made(message_id, lamport=lamport), Way.RELAYED, "p")
                more = page[-1] if len(page) < len(places) else None
                effects += one.range_answered("p", (), more)


@pytest.mark.parametrize(("others", "turn"), [(1, 30.0), (0, 200.0)])
def test_a_peer_that_sends_pages_is_left_for_another_after_half_a_minute(
    others: int, turn: float
) -> None:
    """It may be slow, or bring its own without end. With nobody else it goes on."""
    one = One()
    for n in range(1 + others):
        one.participant.peer_up(f"p{n}", one.now)
    start = one.now
    (asked,) = of(one.wait(2.0), fx.AskCompare)
    parts = (RangeHash(None, None, 1000, SALT),)
    effects = one.compared(asked.peer, LogComparison(parts))
    while of(effects, fx.AskRange) and one.now < start + 200.0:
        one.now += 4.0
        more = (int(one.now), "m")
        effects = one.range_answered(asked.peer, (), more)
    assert turn <= one.now - start < turn + 6.0
    assert [ask.peer != asked.peer for ask in of(effects, fx.AskCompare)] == [True] * others


def test_a_slow_server_does_not_hold_the_others_up() -> None:
    group = Group(4, seed=1)
    group.run(5.0)
    names = sorted(group.members)
    group.part({name: name == names[3] for name in names})
    for n in range(500):
        group.send(names[0], b"%d" % n)
        if n % 50 == 0:
            group.run(0.5)
    assert group.settle(60.0) is None  # the fourth has nothing
    group.slow = {names[0]: 9.0, names[1]: 9.0}
    group.heal()
    took = group.settle(600.0)
    assert took < 200


def test_what_is_left_below_a_cut_is_said() -> None:
    log = Log()
    for n in range(5):
        log.add(f"m{n}", LogEntry(n, "ann", 0), (), head=True)
    log.purge([(1, "m1"), (3, "m3")])
    assert len(log) == 3
    assert compare(log, bytes(16), [RangeHash(None, None, 0, b"")], 3).older == 2


def test_a_newcomer_to_a_cut_log_waits_for_nothing_that_is_gone() -> None:
    group = Group(3, seed=1, params=SdsParams(log_limit=100))
    group.run(5.0)
    names = sorted(group.members)
    group.part({name: name == names[2] for name in names})
    for n in range(300):
        group.send(names[n % 2], b"%d" % n)
        group.run(0.2)
    group.run(30.0)
    group.heal()
    group.run(30.0)
    newcomer = group.members[names[2]]
    other = group.members[names[0]].participant
    assert newcomer.participant.log.places() == other.log.places()


def test_one_peer_that_says_it_purged_a_message_hides_it_from_nobody() -> None:
    one = One()
    for peer in ("liar", "honest"):
        one.participant.peer_up(peer, one.now)
    one.hear("child", "gone", lamport=LONG_AGO)
    asks = of(one.wait(5.0), fx.AskIds)
    effects = one.ids_answered("liar", ("gone",), (WALL, "zzz"))
    assert not of([*effects, *one.wait(1.0)], fx.Lost)
    assert asks
    effects = one.ids_answered("honest", ("gone",), None)
    assert of([*effects, *one.wait(0.1)], fx.Lost) == [fx.Lost("gone")]


def test_what_is_on_its_way_is_no_purged_message() -> None:
    """Its author spoke a second ago, and none of our few peers has that yet; one of them lies."""
    one = One()
    for peer in ("liar", "honest"):
        one.participant.peer_up(peer, one.now)
    one.hear("child", "new", lamport=WALL + 1)
    effects: list[Effect] = []
    for _ in range(5):
        effects += one.wait(1.5)
        for peer, gone in (("liar", (WALL, "zzz")), ("honest", None)):
            effects += one.ids_answered(peer, ("new",), gone)
    assert not of(effects, fx.Lost)
    assert len(of(one.hear("new"), fx.Logged)) == 2
    one.hear("another child", "invented", lamport=WALL + 86_000_000)
    one.wait(11.0)
    for peer, gone in (("liar", (WALL, "zzz")), ("honest", None)):
        effects += one.ids_answered(peer, ("invented",), gone)
    assert of([*effects, *one.wait(0.1)], fx.Lost) == [fx.Lost("invented")]


def test_a_few_peers_that_say_they_purged_a_message_hide_it_from_nobody() -> None:
    """Eight of many may lack a new message, or have it waiting, and a liar may be among them."""
    for purged, lost in ((7, []), (8, [fx.Lost("gone")])):
        one = One()
        for n in range(20):
            one.participant.peer_up(f"p{n}", one.now)
        one.hear("child", "gone", lamport=LONG_AGO)
        one.wait(2.0)
        effects: list[Effect] = []
        for n in range(8):
            place = (WALL, "zzz") if n < purged else None
            effects += one.ids_answered(f"p{n}", ("gone",), place)
        assert of([*effects, *one.wait(0.1)], fx.Lost) == lost


def test_what_waits_is_served_and_not_unknown() -> None:
    one = One()
    store = MemoryStore()
    store.load("0", "me", 10)
    one.take(made("waits", "missing"))
    ask = fx.AskIds("p", ("waits", "missing"))
    answer = look_up(store, "0", one.params, ask, one.participant.waiting(ask.ids))
    assert [(i.key, one.codec.decode(i.raw).message_id) for i in answer.items] == [
        ((WALL, "waits"), "waits")
    ]
    assert answer.unknown_ids == ("missing",)


@pytest.mark.parametrize("count", [0, 1, LEAF, LEAF + 1, 300])
def test_logs_of_any_length_compare(count: int) -> None:
    log = log_of([(n, f"m{n}") for n in range(count)])
    answer = compare(log, SALT, [RangeHash(None, None, 0, b"")], count)
    assert sum(p.count for p in answer.parts) + len(answer.keys) == count
