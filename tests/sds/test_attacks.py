"""What one member with a valid key can do to the others. Each of these did harm once."""

from __future__ import annotations

import hashlib
import time

import pytest

from episub_router.sds.net.exchange import look_up
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.effects import DiscardReason, Response
from episub_router.sds.protocol.entry import RangeHash
from episub_router.sds.protocol.message import HistoryEntry, Message
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.ranges import LogComparison
from episub_router.sds.store.sqlite import SqliteStore
from episub_router.sds.wire.codec import SdsWireError
from episub_router.sds.wire.exchange import (
    Request,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
)
from tests.sds.harness import OFFSET, Group, Links
from tests.sds.one import WALL, One, made, of

DAY = 86_400_000


def test_ranges_that_overlap_are_no_comparison() -> None:
    """286 bytes with 64 of them took 271 ms of a log of 100,000."""
    whole = RangeHash(None, None, 1, b"x")
    part = RangeHash((5, ""), (9, ""), 1, b"x")
    for ranges in ((whole,) * 64, (part, part), (part, RangeHash((8, ""), None, 1, b"x"))):
        request = encode_request(Request("t", "0", fx.AskCompare("p", bytes(16), ranges)))
        with pytest.raises(SdsWireError, match="overlap"):
            decode_request(request, "p")
    rest = RangeHash((9, ""), None, 1, b"x")
    ask = fx.AskCompare("p", bytes(16), (RangeHash(None, (5, ""), 1, b"x"), part, rest))
    assert decode_request(encode_request(Request("t", "0", ask)), "p").ask == ask


def test_parts_that_overlap_are_no_answer() -> None:
    """1,024 of them in 11 kB took 1.8 s of a log of 100,000, and again in up to 64 rounds."""
    part = RangeHash((5, ""), (9, ""), 1, b"x")
    for parts in ((part, part), (part, RangeHash((8, ""), None, 1, b"x"))):
        answer = encode_response(Response(comparison=LogComparison(parts)))
        with pytest.raises(SdsWireError, match="overlap"):
            decode_response(answer)


def test_invented_ids_cost_no_more_than_twice_their_bytes() -> None:
    """200 of them in 7.2 kB cost each of six members 6 times as much in 20 s, and 59 times until
    they were given up."""
    group = Group(6, seed=1)
    *others, mallory = group.members
    group.run(5.0)
    before = group.bytes["pull"]
    invented = [hashlib.sha256(b"%d" % n).hexdigest() for n in range(200)]
    clock = int((group.now + OFFSET) * 1000)
    raw, _ = group.codec.encode(made("0" * 64, *invented, sender_id=mallory, lamport=clock))
    for name in others:
        group.arrive(mallory, name, group.codec.decode(raw), raw)
    group.run(600.0)
    assert group.bytes["pull"] - before < 2 * len(raw) * len(others)


def test_what_two_peers_lack_is_asked_for_when_another_names_it() -> None:
    one = One()
    for peer in "pqrs":
        one.participant.peer_up(peer, one.now)
    one.take(made("child", "missing"), source="p")
    (first,) = of(one.wait(1.0), fx.AskIds)
    second = of(one.ids_answered(first.peer, ("missing",), None), fx.AskIds)[0]
    one.ids_answered(second.peer, ("missing",), None)
    assert not of(one.wait(60.0), fx.AskIds)
    (third, _) = {*"pqrs"} - {first.peer, second.peer}
    for source, asked in ((first.peer, []), (third, [fx.AskIds(third, ("missing",))])):
        one.take(made(f"another of {source}", "missing"), source=source)
        assert of(one.wait(1.0), fx.AskIds) == asked


def test_logs_are_compared_as_often_as_ever_while_something_is_left_to_that() -> None:
    """After a quiet time a message that two neighbours lacked, too, came minutes later: comparisons
    had become eight times rarer."""
    one = One()
    for peer in "pqrs":
        one.participant.peer_up(peer, one.now)
    one.hear("known")

    def compared(seconds: float) -> int:
        """Comparisons in that time; logs are equal."""
        end, count = one.now + seconds, 0
        while one.now < end:
            for ask in of(one.wait(1.0), fx.AskCompare):
                count += 1
                one.compared(ask.peer, LogComparison())
        return count

    compared(1800.0)
    assert compared(600.0) < 3
    one.take(made("child", "missing"), source="p")
    (first,) = of(one.wait(1.0), fx.AskIds)
    second = of(one.ids_answered(first.peer, ("missing",), None), fx.AskIds)[0]
    one.ids_answered(second.peer, ("missing",), None)
    assert compared(300.0) >= 4
    one.hear("missing")
    compared(900.0)
    assert compared(600.0) < 3


@pytest.mark.slow
def test_a_flood_takes_its_share_of_the_log_and_no_more() -> None:
    """2,200 tiny messages pushed all honest ones out of a log of 2,000."""
    params = SdsParams(log_limit=2000)
    group = Group(4, seed=1, params=params)
    ann, bob, eve, mallory = group.members
    group.run(3.0)
    group.crash(eve)
    for n in range(100):
        group.send((ann, bob)[n % 2], b"honest %d" % n)
    honest = set(group.sent_at)
    group.run(5.0)
    for n in range(2200):
        group.send(mallory, b"%d" % n)
        if n % 500 == 0:
            group.run(1.0)
    group.run(30.0)
    for name in (ann, bob):
        participant = group.members[name].participant
        assert all(i in participant.log for i in honest)
        assert len(participant.log) == 2000
    group.start(eve)
    group.run(60.0)
    assert honest <= set(group.members[eve].delivered)
    group.bytes.clear()
    group.run(600.0)
    assert group.bytes["pull"] < 100_000  # nobody fetches again and again what has left


def test_the_log_of_one_sender_is_its_newest() -> None:
    one = One(log_limit=10)
    for n in range(8):
        one.hear(f"quiet{n}", lamport=WALL + n, sender_id="quiet")
    for n in range(50):
        one.hear(f"loud{n}", lamport=WALL + 10 + n, sender_id="loud")
    assert one.log == [f"quiet{n}" for n in range(3, 8)] + [f"loud{n}" for n in range(45, 50)]
    newest = {"quiet": WALL + 7, "loud": WALL + 59}
    assert one.participant.log.newest_by_sender() == newest


def test_heads_of_made_up_senders_take_no_members_place() -> None:
    """With 4,100 of them honest messages came before their past."""
    one = One()
    for n in range(2):
        one.hear(f"bob {n}", lamport=WALL + n, sender_id="bob")
    for n in range(4100):
        one.hear(f"fake {n}", lamport=WALL + 9, sender_id=f"fake {n}")
    _, message = one.send()
    assert "bob 1" in message.history_ids


def test_members_that_were_made_up_hold_up_no_receipt() -> None:
    """500 of them: receipts after 60 s in place of 2.8."""
    group = Group(50, seed=3)
    names = sorted(group.members)
    group.send(names[0], b"first")
    group.run(60.0)
    for n in range(500):
        for name in names[1:]:
            fake = Message(message_id=f"s{n}", channel_id="0", sender_id=f"fake {n}", lamport=1)
            group.arrive(names[-1], name, fake, b"")
        group.run(0.4)
    sent = group.send(names[0], b"second")
    start = group.now
    while not group.holders(names[0], sent):
        group.run(0.1)
        assert group.now < start + 12.0


def test_members_that_were_made_up_keep_no_message_from_being_repaired() -> None:
    """With 500 of them and the author gone nobody answered: 8 of 8 messages were lost."""
    for seed in range(4):
        group = Group(10, seed=seed, links=Links(streams=False))
        names = sorted(group.members)
        group.send(names[1], b"first")
        group.run(5.0)
        for n in range(500):
            for name in names:
                fake = Message(message_id=f"s{n}", channel_id="0", sender_id=f"f{n}", lamport=1)
                group.arrive(names[2], name, fake, b"")
        group.part({names[9]: 1})
        sent = group.send(names[0], b"the author goes")
        group.run(2.0)
        group.part(dict.fromkeys(names[1:], 0) | {names[0]: 2})
        group.send(names[1], b"an answer")
        group.run(120.0)
        assert sent in group.members[names[9]].delivered


def test_what_is_repaired_for_one_member_is_bounded_in_bytes() -> None:
    """2.4 kB/s of requests made 8.4 Mbit/s of repairs."""
    one = One(repair=True)
    for n in range(400):
        one.hear(f"m{n}", sender_id="author", content=bytes(10_000), lamport=WALL + n)
    repaired, seconds = 0, 300
    for second in range(seconds):
        asked = tuple(HistoryEntry(f"m{(16 * second + i) % 400}") for i in range(16))
        one.take(made(f"s{second}", content=None, repair_request=asked, sender_id="mallory"))
        repaired += len(of(one.wait(1.0), fx.Rebroadcast))
    assert repaired * 10_000 <= 131_072 + 10_000 + seconds * 1024
    one.take(made("s", content=None, repair_request=(HistoryEntry("m7"),), sender_id="honest"))
    assert fx.Rebroadcast("m7") in one.wait(30.0)


def test_without_repair_by_the_group_no_request_is_heard() -> None:
    one = One()
    mine, _ = one.send(bytes(10_000))
    one.hear("s", mine, content=None, repair_request=(HistoryEntry(mine),))
    assert not of(one.wait(60.0), fx.Rebroadcast)


def test_acknowledgements_take_one_row_for_each_member() -> None:
    """100 syncs of 198 bytes against 1,000 messages took 33 MB on disk."""
    store = SqliteStore(":memory:")
    store.load("0", "me", 2000)
    one = One(outgoing_limit=2000)
    sent = [one.send()[0] for _ in range(1000)]
    for n in range(100):
        one.hear(f"s{n}", sent[-1], content=None, sender_id=f"member {n}")
    changes = of(one.seen, fx.AckStored)
    assert len(changes) == 100
    store.commit("0", changes)
    saved = store.load("0", "me", 2000)
    assert len(saved.acks) == 100
    own = one.participant.outgoing.get(sent[0])
    assert len(one.participant.outgoing.holders(own)) == 100
    store.close()


def test_a_large_sync_costs_little() -> None:
    """90 to 144 kB of invented ids took 210 to 550 ms."""
    one = One()
    for n in range(300):
        invented = [f"{n}-{i}" for i in range(1024)]
        one.hear(f"s{n}", *invented, content=None, sender_id="mallory")
    assert len(one.participant.wants) <= 2500
    begun = time.process_time()
    for n in range(20):
        one.hear(f"t{n}", *[f"{n}-{i}" for i in range(1024)], content=None, sender_id="mallory")
    assert (time.process_time() - begun) / 20 < 0.05


def test_a_clock_that_leapt_ahead_once_keeps_nobody_from_sending() -> None:
    """Three days ahead once: nothing could be sent for 48 hours."""
    one, other = One(), One()
    one.send()
    one.participant.clock.wall_offset += 3 * DAY / 1000
    _, message = one.send()
    assert (message.lamport or 0) < WALL + DAY / 2
    assert of(other.take(message), fx.Logged) or other.participant.incoming
    one.participant.clock.wall_offset -= 3 * DAY / 1000
    assert one.send()


def test_peers_are_asked_however_many_there_were() -> None:
    """Those beyond 256 never were, also when all others had left."""
    one = One()
    for n in range(300):
        one.participant.peer_up(f"p{n}", one.now)
    for n in range(298):
        one.participant.peer_down(f"p{n}", one.now)
    one.hear("child", "gone")
    assert {e.peer for e in of(one.wait(30.0), fx.AskIds)} == {"p298", "p299"}


def test_a_clock_beyond_the_limit_is_refused_from_anybody() -> None:
    one = One()
    effects = one.hear("a", lamport=WALL + 2 * DAY)
    assert one.drops(effects) == [DiscardReason.CLOCK_AHEAD]


def test_many_large_messages_are_paged_at_once() -> None:
    """300 messages of 900 kB took a member 115 s, as each page read all of them."""
    store = SqliteStore(":memory:")
    store.load("0", "me", 1000)
    one = One()
    for n in range(60):
        store.commit("0", of(one.hear(f"m{n:02}", content=bytes(900_000)), fx.Logged))
    begun, after, got = time.process_time(), None, 0
    while True:
        answer = look_up(store, "0", one.params, fx.AskRange("p", 4000, after))
        got += len(answer.items)
        if answer.next is None:
            break
        after = answer.next
    assert got == 60
    assert time.process_time() - begun < 5.0
    store.close()
