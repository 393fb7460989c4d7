"""Hostile members: whatever they send is bounded and counted, and costs others nothing."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol import group, outgoing
from episub_router.sds.protocol.effects import DiscardReason
from episub_router.sds.protocol.entry import RangeHash
from episub_router.sds.protocol.message import HistoryEntry, Way
from episub_router.sds.protocol.ranges import LogComparison
from tests.sds.one import WALL, One, made, of


def still_works(one: One) -> None:
    """An honest pair of messages is delivered, the second before the first arrives."""
    assert not of(one.hear("honest child", "honest", sender_id="honest"), fx.Logged)
    delivered = of(one.hear("honest", sender_id="honest"), fx.Logged)
    assert [d.message.message_id for d in delivered] == ["honest", "honest child"]


def test_a_flood_of_orphans_fills_its_senders_share_only() -> None:
    one = One(incoming_limit=100, wanted_limit=200)
    drops = set()
    for n in range(1000):
        drops.update(one.drops(one.hear(f"o{n}", f"gone{n}", f"gone too {n}", sender_id="mallory")))
    assert drops == {DiscardReason.INCOMING_FULL}
    assert len(one.participant.incoming) == 25
    assert len(one.participant.wants) == 50
    still_works(one)


def test_four_senders_cannot_fill_the_tables_for_a_fifth() -> None:
    one = One(incoming_limit=100, wanted_limit=100)
    for n in range(200):
        one.hear(f"m{n}", sender_id="author")
    for n in range(400):
        one.hear(f"o{n}", f"gone{n}", sender_id=f"mallory {n % 4}")
    assert len(one.participant.incoming) == len(one.participant.wants) == 100
    for n in range(20):
        effects = one.hear(f"h{n}", f"late{n}", sender_id="honest")
        assert {d.by for d in of(effects, fx.Discarded)} <= {f"mallory {i}" for i in range(4)}
    assert all(f"h{n}" in one.participant.incoming for n in range(20))
    assert all(f"late{n}" in one.participant.wants for n in range(20))
    assert len(one.participant.incoming) == len(one.participant.wants) == 100
    for n in range(20):
        one.hear(f"late{n}", sender_id="honest")
    assert all(f"h{n}" in one.log for n in range(20))


def test_orphans_are_bounded_in_bytes() -> None:
    one = One(incoming_limit=16)
    for n in range(100):
        one.hear(f"o{n}", f"gone{n}", content=b"x" * 10_000, sender_id="mallory")
    assert len(one.participant.incoming) == 2
    still_works(one)


def test_histories_full_of_inventions_are_bounded() -> None:
    one = One(wanted_limit=1000)
    one.participant.peer_up("p", one.now)
    drops = []
    for n in range(20):
        invented = [f"{n}-{i}" for i in range(256)]
        drops += one.drops(one.hear(f"s{n}", *invented, content=None, sender_id="mallory"))
    assert DiscardReason.WANTED_FULL in drops
    assert len(one.participant.wants) == 250
    still_works(one)
    one.wait(2000.0)
    assert len(one.participant.wants) == 0
    assert not of(one.seen, fx.Tombstone)  # nobody waited for these


def test_messages_that_wait_for_each_other_are_let_go_in_the_end() -> None:
    one = One(lost_after=50.0)
    one.participant.peer_up("p", one.now)
    one.hear("a", "b")
    one.hear("b", "a")
    one.hear("self", "self")
    assert one.log == ["self"]
    one.wait(101.0)
    assert sorted(one.log) == ["a", "b", "self"]
    assert len(one.participant.incoming) == 0


def test_a_history_that_names_one_id_twice_is_no_harm() -> None:
    one = One()
    one.hear("a")
    one.hear("b", "a", "a", "gone", "gone")
    assert len(of(one.hear("gone"), fx.Logged)) == 2


def test_far_future_clocks_displace_nothing() -> None:
    one = One(filters=20)
    for n in range(50):
        one.hear(f"future{n}", lamport=2**64 - 1 - n, sender_id="mallory")
        one.hear(f"tomorrow{n}", lamport=WALL + 86_000_000 - n, sender_id="mallory")
    one.hear("now", "tomorrow49")
    sent = [one.send()[1] for _ in range(30)]
    assert any(e.message_id == "now" for message in sent for e in message.causal_history)
    received = one.filters.load(sent[0].bloom_filter or b"")
    assert received.holds(one.filters.base_hash("now"))
    still_works(one)


def test_tables_by_sender_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group, "MEMBERS", 50)
    monkeypatch.setattr(outgoing, "MEMBERS", 50)
    one = One()
    sent, _ = one.send()
    for n in range(500):
        one.hear(f"m{n}", sent, sender_id=f"sybil{n}")
    assert one.participant.group.count(one.now) == 51
    own = one.participant.outgoing.get(sent)
    assert len(one.participant.outgoing.holders(own)) == 50
    still_works(one)


def test_outgoing_messages_are_bounded_when_nobody_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outgoing, "TRACKED", 30)
    one = One(outgoing_limit=10)
    sent = [one.send()[0] for _ in range(100)]
    assert len(one.participant.outgoing) == 10
    assert sent[0] not in one.participant.outgoing
    assert not of(one.seen, fx.Expired)  # nobody was there to resend them to
    assert one.participant.outgoing.get(sent[0]) is None
    assert one.participant.outgoing.get(sent[-1]) is not None
    assert len(one.log) == 100


def test_the_log_is_bounded_and_what_left_it_counts_as_known() -> None:
    one = One(log_limit=10)
    for n in range(30):
        one.hear(f"m{n}", lamport=WALL + n)
    assert one.log == [f"m{n}" for n in range(20, 30)]
    assert one.drops(one.hear("m3", lamport=WALL + 3)) == [DiscardReason.TOO_OLD]
    effects = one.hear("child", "m3", lamport=WALL + 50)
    assert [(d.message.message_id, d.missing) for d in of(effects, fx.Logged)] == [("child", ())]


def test_what_was_written_offline_is_taken_though_the_log_has_gone_on() -> None:
    one = One(log_limit=10)
    one.hear("before", sender_id="away", lamport=WALL)
    for n in range(30):
        one.hear(f"m{n}", lamport=WALL + 100 + n)
    effects = one.hear("offline", sender_id="away", lamport=WALL + 50)
    assert [d.message.message_id for d in of(effects, fx.Logged)] == ["offline"]
    for n in range(30):
        one.hear(f"a{n}", sender_id="away", lamport=WALL + 200 + n)
    for message_id, clock in (("offline", 50), ("before", 0)):  # they have left the log
        effects = one.hear(message_id, sender_id="away", lamport=WALL + clock)
        assert one.drops(effects) == [DiscardReason.TOO_OLD]


def test_clocks_near_the_end_lock_nobody_out() -> None:
    one = One(log_limit=10)
    for n in range(11):
        one.hear(f"future{n}", lamport=2**64 - 1 - n, sender_id="mallory")
        one.hear(f"tomorrow{n}", lamport=WALL + 86_400_000 - n, sender_id="mallory")
    still_works(one)


def test_a_peer_that_lies_about_its_log_is_left() -> None:
    one = One()
    one.participant.peer_up("liar", one.now)
    (ask,) = of(one.wait(2.0), fx.AskCompare)
    assert ask.peer == "liar"
    claim = LogComparison((RangeHash(None, (WALL, "x"), 1000, b"1"),))
    (page,) = of(one.compared("liar", claim), fx.AskRange)
    assert page.after is None
    (page,) = of(one.range_answered("liar", (), (5, "a")), fx.AskRange)
    # pages that don't move forward end it
    assert not of(one.range_answered("liar", (), (5, "a")), fx.AskRange)
    invented = tuple((WALL + n, f"invented{n}") for n in range(100))
    one.range_answered("liar", invented, None)
    assert one.drops(one.take(made("invented1"), Way.UNPROVEN)) == [DiscardReason.NOT_PROVEN]
    still_works(one)


def test_a_peer_whose_log_always_differs_is_asked_a_bounded_number_of_times() -> None:
    one = One()
    one.hear("a")
    one.participant.peer_up("liar", one.now)
    asks = of(one.wait(2.0), fx.AskCompare)
    rounds = 0
    while asks:
        rounds += 1
        parts = tuple(RangeHash(r.after, r.until, 1, b"%d" % rounds) for r in asks[0].ranges)
        asks = of(one.compared("liar", LogComparison(parts)), fx.AskCompare)
    assert rounds == 64


def test_a_peer_that_never_answers_is_given_up() -> None:
    one = One()
    one.participant.peer_up("mute", one.now)
    one.participant.peer_up("good", one.now)
    peers = {a.peer for a in of(one.wait(200.0), fx.AskCompare)}
    assert peers == {"mute", "good"}


ids = st.sampled_from(["a", "b", "c", "d", "e", "f"])
messages = st.builds(
    lambda i, history, sender, lamport, content, requests, bloom: made(
        i,
        *history,
        sender_id=sender,
        lamport=lamport,
        content=content,
        repair_request=tuple(HistoryEntry(r) for r in requests),
        bloom_filter=bloom,
    ),
    ids,
    st.lists(ids, max_size=4),
    st.sampled_from(["x", "y", "me", ""]),
    st.sampled_from([0, 1, WALL, 2**63, 2**64 - 1]),
    st.sampled_from([None, b"", b"one", b"two"]),
    st.lists(ids, max_size=3),
    st.none() | st.binary(max_size=8) | st.just(b"\xff" * 632),
)


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.tuples(messages, st.sampled_from(Way), st.floats(0, 400)), max_size=25))
def test_any_sequence_of_messages_keeps_the_promises(
    steps: list[tuple[object, Way, float]],
) -> None:
    one = One(repair=True, repair_min=1.0, repair_max=3.0, filters=4)
    for message, way, pause in steps:
        one.take(message, way)  # type: ignore[arg-type]
        one.send(b"between")
        one.wait(pause)
    delivered = [d.message.message_id for d in of(one.seen, fx.Logged)]
    assert len(delivered) == len(set(delivered))
    places = one.participant.log.places()
    assert places == sorted(places)
    clocks = [c.value for c in of(one.seen, fx.ClockSet)]
    assert clocks == sorted(clocks)
    assert one.participant.clock.value < 2**63
    one.participant.clock.value = max(one.participant.clock.value, WALL)
    still_works(one)
