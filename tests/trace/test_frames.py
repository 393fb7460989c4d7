"""PB traces with damage: what is lost is what was damaged, and every byte is accounted for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.trace.kinds import kind_of
from episub_router.trace.output import encode_frame
from episub_router.trace.reading import frames
from episub_router.trace.reading.frames import Record, read_frames
from episub_router.trace.reading.pieces import Hole
from tests.trace.samples import assert_covers, bad, good, pb_bytes, sample_events

EVENTS = sample_events(32)
DATA = pb_bytes(EVENTS)


def read(data: bytes, piece: int = 1 << 18) -> list[Record]:
    return list(read_frames(data[at : at + piece] for at in range(0, len(data), piece)))


@pytest.mark.parametrize("piece", [1, 7, 64, 1000, 1 << 18])
def test_sound_events_are_read_whatever_the_pieces(piece: int) -> None:
    records = read(DATA, piece)
    assert good(records) == EVENTS
    assert not bad(records)
    assert_covers(records, DATA)


def test_an_empty_trace_has_no_events() -> None:
    assert read(b"") == []


@pytest.mark.parametrize("bit", range(8))
def test_a_flipped_bit_costs_no_more_than_the_event_that_it_is_in(bit: int) -> None:
    """Wherever it is: in a length, a tag, or an id."""
    starts = [at for at, _ in read(DATA)]
    hit = -1
    for position in range(len(DATA)):
        hit += hit + 1 < len(starts) and starts[hit + 1] == position
        damaged = bytearray(DATA)
        damaged[position] ^= 1 << bit
        records = read(bytes(damaged))
        by_start = dict(records)
        for number, at in enumerate(starts):
            assert number == hit or by_start.get(at) == EVENTS[number]
        assert len(good(records)) in (len(EVENTS), len(EVENTS) - 1)
        assert len(bad(records)) == len(EVENTS) - len(good(records))


@given(st.data())
def test_whatever_the_damage_nothing_untouched_is_lost(data: st.DataObject) -> None:
    """Overwritten stretches, each smaller or larger than an event."""
    events = EVENTS[:20]
    raw = bytearray(pb_bytes(events))
    starts = [at for at, _ in read(bytes(raw))]
    ends = [*starts[1:], len(raw)]
    touched: set[int] = set()
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        junk = data.draw(st.binary(min_size=1, max_size=300))[: len(raw) - at]
        raw[at : at + len(junk)] = junk
        touched.update(n for n in range(20) if starts[n] < at + len(junk) and at < ends[n])
    records = read(bytes(raw), data.draw(st.sampled_from((50, 1 << 18))))
    assert sum(r.size for _, r in bad(records)) <= len(raw)
    by_start = dict(records)
    for number, start in enumerate(starts):
        # The last event before damage may seem to be a part of what follows.
        if number not in touched:
            assert by_start.get(start) == events[number]


@given(st.binary(max_size=2000))
def test_noise_is_no_trace(noise: bytes) -> None:
    records = read(noise)
    assert sum(found.size for _, found in bad(records)) + sum(
        len(encode_frame(event.SerializeToString())) for event in good(records)
    ) == len(noise)


def test_inserted_and_missing_bytes_are_survived() -> None:
    starts = [at for at, _ in read(DATA)]
    inserted = DATA[: starts[10]] + b"\xff\x00\x7f" * 50 + DATA[starts[10] :]
    records = read(inserted)
    assert good(records) == EVENTS
    ((at, gap),) = bad(records)
    assert (at, gap.size) == (starts[10], 150)
    missing = DATA[: starts[10] + 5] + DATA[starts[12] + 5 :]
    assert good(read(missing)) == EVENTS[:10] + EVENTS[13:]


@pytest.mark.parametrize("kept", range(1, 40))
def test_a_cut_off_tail_is_named(kept: int) -> None:
    start = read(DATA)[-1][0]
    records = read(DATA[: start + kept])
    assert good(records) == EVENTS[:-1]
    ((at, gap),) = bad(records)
    assert (at, gap.size, gap.reason) == (start, kept, frames.CUT_OFF)


def test_long_damage_takes_no_more_memory_than_an_event() -> None:
    """8 MiB of it; what is held of it is bounded."""
    junk = b"\x55\xaa\x00\xff" * (1 << 16)
    pieces = [DATA, *([junk] * 32), DATA]
    records = list(read_frames(pieces))
    assert good(records) == EVENTS * 2
    ((at, gap),) = bad(records)
    assert (at, gap.size) == (len(DATA), 32 * len(junk))


def test_events_behind_a_hole_are_found() -> None:
    starts = [at for at, _ in read(DATA)]
    middle = starts[25] + 17
    records = list(read_frames([DATA[: starts[20] + 9], Hole("gone"), DATA[middle:]]))
    assert good(records) == EVENTS[:20] + EVENTS[26:]
    assert [found.reason for _, found in bad(records)][1] == "gone"


def test_an_event_that_contradicts_itself_is_set_aside() -> None:
    wrong = TraceEvent(type=TraceEvent.PRUNE, peerID=b"me", timestamp=1, join={"topic": "x"})
    no_content = TraceEvent(type=TraceEvent.DELIVER_MESSAGE, peerID=b"me", timestamp=1)
    no_type = TraceEvent(peerID=b"me", timestamp=1, deliverMessage={"messageID": b"x"})
    for event in (wrong, no_content, no_type):
        data = pb_bytes([*EVENTS[:3], event, *EVENTS[3:6]])
        records = read(data)
        assert good(records) == EVENTS[:6]
        assert len(bad(records)) == 1


def test_events_of_newer_software_are_events() -> None:
    """A type that we don't know must not turn into PUBLISH_MESSAGE, nor be thrown away."""
    newer = b"\x08\x63\x12\x02me\x18\x01\xa2\x01\x03\x0a\x01x"  # type 99, submessage 20
    newer_own = b"\x08\x09\x12\x02me\x18\x01\xc2\x3e\x03\x0a\x01x"  # JOIN, submessage 1000
    for body in (newer, newer_own):
        data = pb_bytes(EVENTS[:3]) + encode_frame(body) + pb_bytes(EVENTS[3:6])
        events = good(read(data))
        assert len(events) == 7
        assert kind_of(events[3]) is None
        assert events[3] == TraceEvent.FromString(body)


def test_an_event_beyond_what_go_reads_is_set_aside() -> None:
    huge = TraceEvent(
        type=TraceEvent.JOIN, peerID=b"me", timestamp=1, join={"topic": "x" * frames.MAX_EVENT}
    )
    records = read(pb_bytes([*EVENTS[:3], huge, *EVENTS[3:6]]))
    assert good(records) == EVENTS[:6]
    assert [found.reason for _, found in bad(records)] == [frames.TOO_LONG]
