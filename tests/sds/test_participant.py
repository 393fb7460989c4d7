"""The protocol steps of one participant (S02-S14)."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from episub_router.sds.interop import WireFormat
from episub_router.sds.interop.codec import unwrap_int32
from episub_router.sds.net.receipt import Receipt
from episub_router.sds.protocol import delivery
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol import participant as core
from episub_router.sds.protocol.clock import ClockAheadError
from episub_router.sds.protocol.effects import DiscardReason, Purpose
from episub_router.sds.protocol.message import HistoryEntry, Message, Way
from episub_router.sds.protocol.outgoing import AckStatus, Outgoing
from episub_router.sds.protocol.params import LostPolicy, SdsParams
from episub_router.sds.protocol.ranges import LogComparison
from episub_router.sds.store.sqlite import MemoryStore
from tests.sds.one import WALL, One, made, of

# Sending (S02, S07)


def test_clock_is_epoch_milliseconds_and_always_grows() -> None:
    one = One()
    clocks = [one.send()[1].lamport for _ in range(3)]
    assert clocks == [WALL, WALL + 1, WALL + 2]
    one.now += 10
    assert one.send()[1].lamport == WALL + 10_000
    one.hear("ahead", lamport=WALL + 50_000)
    assert one.send()[1].lamport == WALL + 50_001


def test_all_heads_are_named_and_all_else_is_among_their_ancestors() -> None:
    """S04: twenty concurrent messages that we have seen come before our next, for everybody."""
    one = One()
    mine, _ = one.send()
    heads = {f"h{n}" for n in range(20)}
    for head in sorted(heads):
        one.hear(head, mine, sender_id=f"of {head}")
    last, message = one.send()
    assert set(message.history_ids) == heads
    assert one.send()[1].history_ids == [last]


@pytest.mark.parametrize("come", [True, False])
def test_all_that_a_message_waits_for_is_looked_for_in_the_end(come: bool) -> None:
    """It was the first 64, and the rest came by comparing logs or was lost unasked."""
    one = One(lost_after=100.0)
    one.participant.peer_up("p", one.now)
    wants = one.participant.wants
    names = [f"d{n}" for n in range(200)]
    one.hear("x", *names)
    looked_for = {i for i in names if i in wants}
    assert len(looked_for) == 64
    for wanted in names:
        assert come is False or wanted in wants
        if come:
            one.hear(wanted, lamport=WALL - 1)
    if not come:
        one.wait(101.0)
        looked_for |= {i for i in names if i in wants}
        assert len(looked_for) == 128
    assert ("x" in one.log) is come


def test_a_sender_has_one_head() -> None:
    """Else 2,040 messages of one member went into every message of all others."""
    one = One()
    for n in range(2040):
        one.hear(f"h{n}", lamport=WALL + n)
    one.hear("before", lamport=WALL - 1)
    assert one.send()[1].history_ids == ["h2039"]


def test_our_last_message_is_named_though_a_head_that_covered_it_is_none_any_more() -> None:
    one = One()
    mine, _ = one.send()
    one.hear("a", mine, lamport=WALL + 5)
    one.hear("b", lamport=WALL + 6)
    assert set(one.send()[1].history_ids) == {"b", mine}


def test_of_too_many_heads_all_are_named_in_the_end_and_own_messages_form_a_chain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(core, "MAX_HEADS", 4)
    one = One()
    for n in range(20):
        one.hear(f"h{n}", sender_id=f"of h{n}")
    named: set[str] = set()
    last = None
    for _ in range(20):
        sent, message = one.send()
        assert last is None or last in message.history_ids
        named.update(message.history_ids)
        last = sent
    assert {f"h{n}" for n in range(20)} <= named


def test_a_history_does_not_acknowledge_what_its_sender_lacks() -> None:
    """ "other" has given up our second message, and with it, for all it knows, the first."""
    one = One()
    first, second = one.send()[0], one.send()[0]
    third = one.send()[0]
    effects = one.hear("a", third, gaps=(second,))
    assert of(effects, fx.Acknowledged) == [fx.Acknowledged(third, "other")]
    assert not of(one.hear("c", "a", gaps=("unknown",), gaps_more=True), fx.Acknowledged)
    fourth = one.send()[0]
    effects = one.hear("d", fourth)
    assert of(effects, fx.Acknowledged) == [
        fx.Acknowledged(i, "other") for i in (first, second, fourth)
    ]


def test_our_messages_say_what_we_gave_up_until_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core, "MAX_GAPS", 2)
    one = One(lost_after=20.0)
    one.participant.peer_up("p", one.now)
    for n in range(3):
        one.hear(f"child{n}", f"gone{n}")
    one.wait(25.0)
    message = one.send()[1]
    assert (len(message.gaps), message.gaps_more) == (2, True)
    for n in range(3):
        one.hear(f"gone{n}", lamport=WALL - 1)
    message = one.send()[1]
    assert (message.gaps, message.gaps_more) == ((), False)


def test_what_was_forgotten_of_what_we_gave_up_is_said_after_a_restart_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delivery, "TOMBSTONES", 2)
    one = One(lost_after=20.0)
    one.participant.peer_up("p", one.now)
    store = MemoryStore()
    store.load("0", "me", 100)
    for n in range(3):
        one.hear(f"child{n}", f"gone{n}")
    one.wait(25.0)
    assert one.send()[1].gaps_more
    store.commit("0", of(one.seen, fx.Change))  # type: ignore[arg-type]
    saved = store.load("0", "me", 100)
    assert saved is not None
    again = One(restored=saved)
    message = again.send()[1]
    assert (message.gaps, message.gaps_more) == (("gone1", "gone2"), True)


def test_the_filter_in_a_message_holds_what_was_received() -> None:
    one = One(filters=500)
    one.hear("a")
    one.hear("waits", "unknown")
    _, message = one.send()
    received = one.filters.load(message.bloom_filter or b"")
    assert received.holds(one.filters.base_hash("a"))
    assert received.holds(one.filters.base_hash("waits"))
    assert not received.holds(one.filters.base_hash("unknown"))


def test_what_cannot_be_sent_is_refused_and_leaves_no_trace() -> None:
    one = One()
    with pytest.raises(ValueError, match="needs content"):
        one.participant.send(b"", one.now)
    with pytest.raises(ValueError, match="at most 1048576 can be sent"):
        one.participant.send(b"x" * 2**20, one.now)
    assert one.log == []
    assert one.send()[1].causal_history == ()


# Receiving (S05, S06, S08, S09)


def test_three_deep_chain_is_released_in_order_the_moment_it_can() -> None:
    one = One()
    assert of(one.hear("c", "b"), fx.Logged) == []
    assert of(one.hear("b", "a"), fx.Logged) == []
    delivered = of(one.hear("a"), fx.Logged)
    assert [d.message.message_id for d in delivered] == ["a", "b", "c"]


def test_log_orders_by_clock_then_id_whatever_came_first() -> None:
    one = One()
    for name, lamport in (("z", 5), ("b", 7), ("a", 7), ("B", 7), ("é", 7), ("y", 6)):
        one.hear(name, lamport=lamport)
    assert one.log == ["z", "y", "B", "a", "b", "é"]


def test_duplicates_and_own_messages_that_come_back_are_ignored() -> None:
    one = One()
    one.hear("a")
    one.hear("waits", "unknown")
    assert one.drops(one.hear("a")) == [DiscardReason.DUPLICATE]
    assert one.drops(one.hear("waits", "unknown")) == [DiscardReason.DUPLICATE]
    _, mine = one.send()
    assert one.drops(one.take(mine)) == [DiscardReason.OWN_ECHO]
    assert len(one.log) == 2


def test_own_messages_of_a_life_without_a_store_are_taken_back() -> None:
    before = One()
    _, message = before.send(b"before the crash")
    again = One()
    assert [d.message for d in of(again.take(message), fx.Logged)] == [message]


def test_equal_contents_are_two_messages() -> None:
    one = One()
    assert one.send(b"same")[0] != one.send(b"same")[0]


def test_other_channels_are_dropped() -> None:
    one = One()
    assert one.drops(one.hear("a", channel_id="1")) == [DiscardReason.WRONG_CHANNEL]


def test_a_clock_far_ahead_is_refused_until_the_time_has_come() -> None:
    one = One()
    day = 86_400_000
    effects = one.hear("a", lamport=WALL + day + 60_000)
    assert one.drops(effects) == [DiscardReason.CLOCK_AHEAD]
    assert of(effects, fx.ClockAhead) == [fx.ClockAhead("other", 86_460.0)]
    assert one.log == []
    assert one.send()[1].lamport == WALL
    one.now += 60.0
    assert len(of(one.hear("a", lamport=WALL + day + 60_000), fx.Logged)) == 1
    assert one.send()[1].lamport == WALL + day + 60_001
    one.hear("b", lamport=2**64 - 1)
    assert one.send()[1].lamport == WALL + day + 60_002


def test_clocks_a_day_ahead_each_do_not_add_up() -> None:
    one = One()
    for n in range(1, 4):
        one.hear(f"day {n}", lamport=WALL + n * 86_400_000)
    assert one.log == ["day 1"]


def test_who_drives_the_clock_to_its_limit_silences_nobody() -> None:
    """What follows a message that was taken is taken, so that all can go on from there."""
    limit = WALL + 86_400_000
    one, other = One(), One()
    for each in (one, other):
        each.hear("driven", lamport=limit, sender_id="mallory")
    for n in range(3):
        _, message = one.send(b"%d" % n)
        assert message.lamport == limit + 1 + n
        assert len(of(other.take(replace(message, sender_id="one")), fx.Logged)) == 1
    assert other.drops(other.hear("more", "driven", lamport=limit + 2)) == [
        DiscardReason.CLOCK_AHEAD
    ]
    syncs = one.published(one.wait(100.0))
    assert syncs
    assert all((s.lamport or 0) <= limit + 100_001 for s in syncs)


def test_a_clock_set_back_by_days_is_said_and_recovers() -> None:
    one = One()
    one.now += 3 * 86_400.0
    one.send()
    one.participant.clock.wall_offset -= 3 * 86_400.0
    with pytest.raises(ClockAheadError, match="ahead of the time of day, which was set back"):
        one.send()
    assert one.log != []
    one.now += 2 * 86_400.0 + 1.0
    assert one.send()[1].lamport == WALL + 3 * 86_400_000 + 1


def test_a_clock_that_was_wrong_before_anything_was_said_keeps_nobody_from_sending() -> None:
    """Started three days ahead and set right, nothing could be sent for 48 hours."""
    one = One()
    one.participant.clock.wall_offset -= 3 * 86_400.0
    assert one.send()[1].lamport == WALL - 3 * 86_400_000


def test_a_clock_adopted_on_delivery_survives_a_crash() -> None:
    store = MemoryStore()
    store.load("0", "me", 100)
    one = One()
    one.hear("ahead", lamport=WALL + 50_000)
    store.commit("0", of(one.seen, fx.Change))  # type: ignore[arg-type]
    saved = store.load("0", "me", 0)  # a log of which nothing comes back
    assert saved is not None
    again = One(restored=saved)
    assert again.send()[1].lamport == WALL + 50_001


# Acknowledgements (S04, S10)


def test_a_history_acknowledges_with_all_ancestors_by_sender() -> None:
    one = One()
    sent = [one.send()[0] for _ in range(3)]
    effects = one.hear("a", sent[2])
    assert of(effects, fx.Acknowledged) == [fx.Acknowledged(i, "other") for i in sent]
    assert not len(one.participant.outgoing)
    # "third" has seen "a", and so what "a" has seen
    effects = one.hear("b", "a", sender_id="third")
    assert of(effects, fx.Acknowledged) == [fx.Acknowledged(i, "third") for i in sent]
    own = one.participant.outgoing.get(sent[0])
    assert own.status is AckStatus.ACKNOWLEDGED
    assert one.participant.outgoing.holders(own) == ("other", "third")
    assert not one.resent(one.wait(100.0))


def test_a_message_that_waits_acknowledges_too() -> None:
    one = One()
    sent, _ = one.send()
    assert of(one.hear("a", sent, "unknown"), fx.Acknowledged)


def test_filters_acknowledge_by_how_rarely_they_are_wrong() -> None:
    one = One(filters=50)
    sent, _ = one.send()
    filters = one.filters
    full, sparse = filters.new(), filters.new()
    for words, count in ((full, 50), (sparse, 1)):
        for n in range(count):
            filters.insert(words, filters.base_hash(f"f{n}"))
        filters.insert(words, filters.base_hash(sent))
    for sender in ("b", "c", "d"):  # however many, as they have the same ids
        effects = one.hear(f"of {sender}", sender_id=sender, bloom_filter=filters.dump(full))
        assert not of(effects, fx.Acknowledged)
        (possibly,) = of(effects, fx.PossiblyAcknowledged)
        assert 0.0001 < possibly.probability < 0.05
    effects = one.hear("e", sender_id="e", bloom_filter=filters.dump(sparse))
    assert of(effects, fx.Acknowledged) == [fx.Acknowledged(sent, "e")]


@pytest.mark.parametrize("data", [b"", b"\x01", b"\xff" * 18_752, b"\x00" * 631])
def test_unusable_filters_cost_no_message(data: bytes) -> None:
    one = One(filters=500)
    one.send()
    effects = one.hear("a", bloom_filter=data)
    assert len(of(effects, fx.Logged)) == 1
    assert one.drops(effects) == ([DiscardReason.FILTER_UNUSABLE] if data else [])


def test_an_all_ones_filter_acknowledges_nothing() -> None:
    one = One(filters=500)
    sent, _ = one.send()
    effects = one.hear("a", bloom_filter=b"\xff" * 632)
    assert one.drops(effects) == [DiscardReason.FILTER_SATURATED]
    own = one.participant.outgoing.get(sent)
    assert own.status is AckStatus.UNACKNOWLEDGED


def test_a_quorum_keeps_a_message_in_the_buffer() -> None:
    one = One(ack_quorum=2)
    sent, _ = one.send()
    one.hear("a", sent)
    assert len(one.participant.outgoing) == 1
    one.hear("b", "a", sender_id="third")
    assert len(one.participant.outgoing) == 0


# Sweeps (S11, S12)


def test_resends_back_off_and_expire_but_the_message_stays() -> None:
    one = One(sync_interval=10_000.0)
    one.participant.peer_up("p", one.now)
    sent, _ = one.send()
    times = []
    for _ in range(1000):
        if one.resent(one.wait(1.0)):
            times.append(one.now - 1000.0)
    assert len(times) == 6
    gaps = [b - a for a, b in zip([0.0, *times], times, strict=False)]
    assert all(3.0 <= gap / 2**n <= 7.5 for n, gap in enumerate(gaps))
    assert of(one.seen, fx.Expired) == [fx.Expired(sent)]
    assert one.log == [sent]
    # Who gets it later can still acknowledge it.
    assert of(one.hear("late", sent), fx.Acknowledged)


def test_nothing_is_resent_to_nobody() -> None:
    one = One(sync_interval=5.0)
    one.send()
    assert not of(one.wait(3600.0), fx.Expired)
    assert not one.resent(one.seen)
    one.participant.peer_up("p", one.now)
    assert len(one.resent(one.wait(60.0))) > 1


def test_sending_waits_for_acknowledgements_while_somebody_is_there() -> None:
    one = One(outgoing_limit=3)
    sent = [one.send()[0] for _ in range(3)]
    assert not one.participant.must_wait(one.now)  # alone
    one.hear("a")
    assert one.participant.must_wait(one.now)
    one.hear("b", sent[0])
    assert not one.participant.must_wait(one.now)


def test_what_is_possibly_there_is_resent_later() -> None:
    one = One(filters=20, sync_interval=10_000.0)
    sent, _ = one.send()
    words = one.filters.new()
    for n in range(19):
        one.filters.insert(words, one.filters.base_hash(f"f{n}"))
    one.filters.insert(words, one.filters.base_hash(sent))
    one.hear("a", bloom_filter=one.filters.dump(words))
    assert not one.resent(one.wait(40.0))
    assert one.resent(one.wait(40.0))


def test_missing_dependencies_are_asked_of_who_referred_to_them_then_of_others() -> None:
    one = One()
    for peer in ("p", "q", "r"):
        one.participant.peer_up(peer, one.now)
    one.take(made("child", "gone"), source="q")
    asks = of(one.wait(0.9), fx.AskIds)
    assert asks == [fx.AskIds("q", ("gone",))]
    (again,) = of(one.ids_answered("q", ("gone",), None), fx.AskIds)
    assert again.peer in ("p", "r")  # at once
    one.participant.failed(again, one.now)
    assert of(one.wait(15.0), fx.AskIds)
    found = of(one.take(made("gone"), Way.RELAYED), fx.Found)
    assert [f.message_id for f in found] == ["gone"]
    assert not of(one.wait(60.0), fx.AskIds)


def test_lost_dependencies_are_named_once_and_late_ones_still_logged() -> None:
    one = One(lost_after=20.0)
    one.participant.peer_up("p", one.now)
    one.hear("b", "a")
    effects = one.wait(21.0)
    assert of(effects, fx.Lost) == [fx.Lost("a")]
    assert [(d.message.message_id, d.missing) for d in of(effects, fx.Logged)] == [("b", ("a",))]
    # a later reference to what was given up is satisfied
    assert [d.missing for d in of(one.hear("c", "a", "b"), fx.Logged)] == [()]
    assert [d.message.message_id for d in of(one.hear("a"), fx.Logged)] == ["a"]
    assert list(one.participant.log.heads) == ["c"]


def test_nothing_is_given_up_while_nobody_is_there() -> None:
    one = One(lost_after=20.0, sync_interval=5.0)
    one.participant.peer_up("p", one.now)
    one.hear("b", "a")
    one.wait(5.0)
    one.participant.peer_down("p", one.now)
    assert not of(one.wait(10_000.0), fx.Lost)  # 15 s after "b" nobody counts as there
    one.participant.peer_up("q", one.now)
    assert not of(one.wait(4.0), fx.Lost)
    assert of(one.wait(2.0), fx.Lost) == [fx.Lost("a")]


def test_what_was_given_up_is_fetched_from_a_log_that_has_it() -> None:
    one = One(lost_after=20.0)
    one.participant.peer_up("p", one.now)
    one.hear("b", "a")
    one.wait(30.0)
    assert of(one.seen, fx.Tombstone) == [fx.Tombstone("a")]
    effects = one.range_answered("p", ((WALL - 1, "a"),), None)
    assert fx.AskIds("p", ("a",)) in [*effects, *one.wait(30.0)]


def test_hold_waits_for_ever() -> None:
    one = One(lost_after=20.0, on_lost=LostPolicy.HOLD)
    one.hear("b", "a")
    assert not of(one.wait(5000.0), fx.Logged)
    assert [d.message.message_id for d in of(one.hear("a"), fx.Logged)] == ["a", "b"]


# Sync and ephemeral messages (S13, S14)


def test_sync_messages_are_neither_logged_nor_resent_nor_buffered() -> None:
    one = One()
    one.hear("a")
    (sync,) = [p for p in of(one.wait(10.0), fx.BroadcastBytes) if p.purpose is Purpose.SYNC]
    message = one.codec.decode(sync.raw)
    assert message.content is None
    assert [e.message_id for e in message.causal_history] == ["a"]
    assert message.lamport > WALL
    other = One()
    effects = other.take(made("s", "a", content=None))
    assert not of(effects, fx.Logged)
    assert not len(other.participant.incoming)
    assert "a" in other.participant.wants  # what it names is looked for
    assert other.log == []


def test_no_sync_without_history_or_requests() -> None:
    one = One()
    assert not of(one.wait(500.0), fx.BroadcastBytes)


def test_sync_is_suppressed_by_who_says_the_same() -> None:
    one = One()
    one.hear("a")
    one.hear("b", "a", sender_id="third")
    for n in range(20):
        one.hear(f"s{n}", "a", "b", content=None, sender_id="fourth")
        one.wait(20.0)
    assert not [p for p in of(one.seen, fx.BroadcastBytes) if p.purpose is Purpose.SYNC]
    assert of(one.wait(400.0), fx.BroadcastBytes)


@pytest.mark.parametrize(("channels", "pause"), [(1, 60.0), (250, 120.0), (1000, 240.0)])
def test_of_many_channels_each_soon_says_less(channels: int, pause: float) -> None:
    """What is new is said again as soon as in any channel; then intervals get longer faster."""
    one = One()
    one.participant.sync.channels = channels

    def said(seconds: float) -> int:
        effects = of(one.wait(seconds), fx.BroadcastBytes)
        return len([e for e in effects if e.purpose is Purpose.SYNC])

    for _ in range(2):
        one.send()
        assert said(29.0) == 0
        assert said(16.0) == 1
        assert said(pause - 16.0) == 0
        assert said(pause / 2 + 16.0) == 1


@pytest.mark.parametrize(("source", "confirms"), [("other", True), ("third", False)])
def test_the_author_that_hands_out_its_message_hears_that_we_have_it(
    source: str, confirms: bool
) -> None:
    """Before it resends to a newcomer what that has."""
    one = One()
    one.take(made("a"), Way.RELAYED, source)
    syncs = one.published(one.wait(8.0))
    assert bool(syncs) is confirms
    assert all("a" in [e.message_id for e in s.causal_history] for s in syncs)


def test_who_names_the_newest_message_of_an_author_confirms_those_before_it() -> None:
    """Else each member confirms all but that: 49 of fifty spoke for four messages, not 12."""
    one = One()
    one.hear("a")
    one.hear("b", "a")
    one.hear("s", "b", content=None, sender_id="third")
    assert not one.published(one.wait(8.0))
    one.hear("c", "b")
    assert one.published(one.wait(8.0))


def test_who_lacks_a_head_of_ours_hears_of_it_soon() -> None:
    one = One()
    mine, _ = one.send()
    one.hear("a", mine)
    one.hear("s", mine, content=None, sender_id="third")
    syncs = one.published(one.wait(11.0))
    assert any("a" in [e.message_id for e in s.causal_history] for s in syncs)


def test_ephemeral_messages_are_delivered_at_once_and_once() -> None:
    one = One()
    message = Message(message_id="e", channel_id="0", sender_id="other", content=b"typing")
    assert of(one.take(message), fx.DeliverEphemeral) == [fx.DeliverEphemeral(message)]
    assert one.drops(one.take(message)) == [DiscardReason.DUPLICATE]
    assert one.log == []
    (publish,) = of(one.participant.send_ephemeral(b"typing"), fx.BroadcastBytes)
    sent = one.codec.decode(publish.raw)
    assert (sent.lamport, sent.causal_history, sent.bloom_filter) == (None, (), None)
    assert not one.resent(one.wait(100.0))


# SDS-R


def test_requests_travel_most_overdue_first_and_are_repeated() -> None:
    one = One(repair=True, repair_min=1.0, repair_max=4.0)
    for n in range(5):
        one.hear(f"child{n}", f"gone{n}")
    one.now += 5.0
    (sync,) = one.published(one.participant.poll(one.now))
    assert [e.message_id for e in sync.repair_request] == ["gone0", "gone1", "gone2"]
    _, message = one.send()
    assert [e.message_id for e in message.repair_request] == ["gone3", "gone4"]
    syncs = [sync, message, *one.published(one.wait(30.0))]
    asked = [e.message_id for s in syncs for e in s.repair_request]
    assert all(asked.count(f"gone{n}") >= 2 for n in range(5))


def test_a_request_of_another_puts_ours_off() -> None:
    one = One(repair=True, repair_min=10.0, repair_max=11.0)
    one.hear("child", "gone")
    one.now += 9.9
    one.take(made("s", content=None, repair_request=(HistoryEntry("gone"),)))
    syncs = one.published(one.wait(9.0))
    assert not any(s.repair_request for s in syncs)
    assert any(s.repair_request for s in one.published(one.wait(15.0)))


def test_a_group_that_asks_in_vain_asks_ever_more_rarely() -> None:
    one = One(repair=True)
    one.hear("child", "gone")
    ages = [
        second
        for second in range(590)
        if any(s.repair_request for s in one.published(one.wait(1.0)))
    ]
    assert 10 < len(ages) < 25
    assert all(b - a >= min(a / 4, 60.0) - 1.0 for a, b in pairwise(ages))


def test_answers_wait_and_are_cancelled_by_another_copy() -> None:
    one = One(repair=True, repair_max=30.0)
    one.hear("a", sender_id="author")
    mine, _ = one.send()
    asked = (HistoryEntry("a"), HistoryEntry(mine), HistoryEntry("never heard of"))
    request = made("s", mine, content=None, repair_request=asked)
    one.take(request)
    assert of(one.wait(0.0), fx.Rebroadcast) == [fx.Rebroadcast(mine)]  # its author at once
    one.hear("a", sender_id="author")
    assert not of(one.wait(40.0), fx.Rebroadcast)
    one.take(request)
    assert fx.Rebroadcast("a") in one.wait(40.0)


# Trust


def test_what_is_not_proven_acknowledges_nothing_and_asks_for_nothing() -> None:
    one = One()
    sent, _ = one.send()
    forged = made("x", sent, repair_request=(HistoryEntry(sent),))
    effects = one.take(forged, Way.UNPROVEN)
    assert not of(effects, fx.Acknowledged)
    assert not of(one.wait(0.5), fx.Rebroadcast)


def test_sync_and_ephemeral_messages_count_only_from_their_sender() -> None:
    one = One()
    ephemeral = Message(message_id="e", channel_id="0", sender_id="other", content=b"typing")
    for way, reason in (
        (Way.UNPROVEN, DiscardReason.NOT_PROVEN),
        (Way.RELAYED, DiscardReason.NOT_ASKED_FOR),
    ):
        assert one.drops(one.take(ephemeral, way)) == [reason]
        assert one.drops(one.take(made("s", content=None), way)) == [reason]


# Restart


def test_state_comes_back_from_the_store() -> None:
    store = MemoryStore()
    store.load("0", "me", 100)
    one = One(filters=8)
    sent = [one.send()[0] for _ in range(2)]
    one.hear("a", sent[0])
    one.hear("waits", "gone")
    store.commit("0", of(one.seen, fx.Change))  # type: ignore[arg-type]
    saved = store.load("0", "me", 100)
    assert saved is not None
    again = One(restored=saved, filters=8)
    assert again.log == one.log
    assert again.participant.log.heads == one.participant.log.heads
    again.hear("waits", "gone")  # what waited is fetched again
    assert "gone" in again.participant.wants
    again.participant.peer_up("p", again.now)
    assert {*again.resent(again.wait(30.0))} == {sent[1]}
    assert of(again.hear("b", sent[1]), fx.Acknowledged) == [fx.Acknowledged(sent[1], "other")]
    delivered = of(again.hear("gone"), fx.Logged)
    assert [d.message.message_id for d in delivered] == ["gone", "waits"]
    lamport = again.send()[1].lamport
    assert lamport > one.participant.clock.value


def test_nobody_waits_for_the_publishing_of_what_is_not_resent_after_a_restart() -> None:
    """`sent()` of such a receipt waited for ever."""
    outgoing = Outgoing(SdsParams(outgoing_limit=2), Random(1))
    for clock in range(1, 5):
        outgoing.restore(str(clock), clock, b"raw", 0.0)
    driver: Any = SimpleNamespace(participant=SimpleNamespace(outgoing=outgoing))
    owns = [outgoing.get(str(clock)) for clock in range(1, 5)]
    receipts = [Receipt(driver, own) for own in owns if own is not None]
    assert [receipt.published for receipt in receipts] == [True, True, False, False]
    outgoing.review("other", 3, 0, 0)
    assert [receipt.published for receipt in receipts] == [True, True, True, False]


def test_what_is_too_old_is_not_asked_for_again_after_a_restart() -> None:
    """It was, once at each start, for as long as a peer had it."""
    store = MemoryStore()
    store.load("0", "me", 100)
    one = One(log_limit=3)
    one.hear("quiet", sender_id="quiet", lamport=WALL - 9)
    for n in range(3):
        one.hear(f"f{n}", lamport=WALL + 10 + n)
    assert one.log == ["quiet", "f1", "f2"]
    old = made("old", lamport=WALL)
    assert one.drops(one.take(old, Way.RELAYED, "p")) == [DiscardReason.TOO_OLD]
    assert not of(one.take(old, Way.RELAYED, "p"), fx.Change)
    store.commit("0", of(one.seen, fx.Change))  # type: ignore[arg-type]
    again = One(restored=store.load("0", "me", 100), log_limit=3)
    again.participant.peer_up("p", again.now)
    differs = LogComparison(keys=(old.key, (WALL, "new")))
    effects = again.compared("p", differs)
    assert [ask.ids for ask in of(effects, fx.AskIds)] == [("new",)]


# The seed's schema


def test_seed_clocks_are_taken_nearest_to_ours() -> None:
    assert unwrap_int32(WALL & 0xFFFFFFFF, WALL + 1000) == WALL
    assert unwrap_int32((WALL & 0xFFFFFFFF) | 0xFFFFFFFF00000000, WALL - 10**9) == WALL
    assert unwrap_int32(3, 5) == 3


def test_two_seed_participants_agree() -> None:
    one = One(filters=10, wire=WireFormat.SEED)
    other = One(filters=10, wire=WireFormat.SEED)
    _, message = one.send(b"in the first schema")
    assert (message.sender_id, message.lamport) == ("", WALL)
    other.take(replace(message, sender_id="other"))
    assert other.participant.log.places() == one.participant.log.places()


def test_recorded_runs_of_the_npm_package_end_the_same(vectors: dict[str, Any]) -> None:
    """What members who only listened have in the end, and where their clocks are."""
    compared = 0
    for trace in vectors["trace_js"]:
        config, steps = trace["config"], trace["log"]
        speakers = {s["step"]["p"] for s in steps if s["step"]["op"] in ("send", "sync")}
        sent = {s["step"]["as"]: s["encoded_hex"] for s in steps if "encoded_hex" in s}
        for name in set(config["participants"]) - speakers:
            one = One(channel_id=config["channel_id"], filters=16)
            last = None
            for step in (s for s in steps if s["step"]["p"] == name):
                one.now = 1000.0 + (step["now"] - WALL) / 1000
                if step["step"]["op"] == "recv" and step["step"]["msg"] in sent:
                    one.take(one.codec.decode(bytes.fromhex(sent[step["step"]["msg"]])))
                last = step
            if last is not None and not any("lost" in e["event"] for e in last["events"]):
                assert [i[:8] for i in one.log] == last["history_after"], trace["name"]
                assert one.participant.clock.value == int(last["lamport_after"])
                compared += 1
    assert compared


def test_params_that_contradict_are_refused() -> None:
    for wrong in (
        {"repair_min": 5.0, "repair_max": 5.0},
        {"lost_after": float("nan")},
        {"sync_interval": 0.0},
        {"log_limit": 0},
        {"max_message": 1023},
    ):
        with pytest.raises(ValueError, match="must"):
            SdsParams(**wrong)  # type: ignore[arg-type]
