"""Files in all formats, recognised by their content, with and without damage."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from episub_router.pb.trace_pb2 import TraceEvent
from episub_router.trace.kinds import TYPED
from episub_router.trace.reading import TraceFile
from episub_router.trace.reading.json_lines import from_json, to_json
from tests.trace.samples import START, bad, good, json_bytes, pb_bytes, put, sample_events
from tests.trace.samples import records_of as read

EVENTS = sample_events(200, seed=1)


def members(data: list[bytes]) -> bytes:
    return b"".join(gzip.compress(part) for part in data)


MEMBERS = members([pb_bytes(EVENTS[at : at + 20]) for at in range(0, 200, 20)])


@pytest.mark.parametrize(
    ("encode", "format", "gzipped"),
    [
        (pb_bytes, "pb", False),
        (json_bytes, "json", False),
        (lambda events: gzip.compress(pb_bytes(events)), "pb", True),
        (lambda events: gzip.compress(json_bytes(events)), "json", True),
    ],
)
def test_the_format_is_told_by_the_content(
    encode: Callable[[list[TraceEvent]], bytes], format: str, gzipped: bool, tmp_path: Path
) -> None:
    with TraceFile(put(tmp_path, encode(EVENTS), "misleading.json.gz")) as file:
        assert (file.format, file.gzipped) == (format, gzipped)
        assert [event for _, event in file] == EVENTS
        assert file.position == file.size


def test_a_missing_file_is_an_error_and_an_empty_one_is_not(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        TraceFile(tmp_path / "none")
    assert read(put(tmp_path, b"")) == []


def test_json_is_that_of_go() -> None:
    event = TraceEvent(
        type=TraceEvent.PRUNE,
        peerID=b"me\xff",
        timestamp=START,
        prune=TraceEvent.Prune(peerID=b"you", topic="news"),
        tree=TraceEvent.TreeMeta(state="lazy"),
    )
    assert to_json(event) == (
        '{"type":12,"peerID":"bWX/","timestamp":1763000000000000000,'
        '"prune":{"peerID":"eW91","topic":"news"},"tree":{"state":"lazy"}}'
    )
    assert from_json(to_json(event)) == event


def test_older_names_and_keys_of_others_are_understood() -> None:
    text = '{"type":"ADD_PEER","peerID":"bWU=","timestamp":1,"addPeer":{"peerID":"eA=="},"new":[1]}'
    event = from_json(text)
    assert event.type == TraceEvent.ON_NEW_OUTBOUND_STREAM
    assert event.onNewOutboundStream.peerID == b"x"
    event = from_json('{"type":5,"peerID":"bWU=","timestamp":1,"removePeer":{"peerID":"eA=="}}')
    assert event.onClosedOutboundStream.peerID == b"x"


@pytest.mark.parametrize(
    "line",
    [
        b"[]",
        b"{",
        b'{"type":3}',
        b'{"type":3,"peerID":"?","timestamp":1,"join":{"topic":"x"}}',
        b'{"type":9,"peerID":"bWU=","timestamp":1e400,"join":{"topic":"x"}}',
        b'{"type":9,"peerID":"bWU=","timestamp":99999999999999999999,"join":{"topic":"x"}}',
        b'{"type":9,"peerID":"bWU=","timestamp":1,"join":"x"}',
        b'{"type":9,"peerID":"bWU=","timestamp":1,"join":{"topic":[1]}}',
        b'{"type":77,"peerID":"bWU=","timestamp":1,"join":{"topic":"x"}}',
        b'{"type":"WHAT","peerID":"bWU=","timestamp":1,"join":{"topic":"x"}}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_line_that_is_no_event_is_set_aside(line: bytes, tmp_path: Path) -> None:
    data = json_bytes(EVENTS[:3]) + line + b"\n" + json_bytes(EVENTS[3:6])
    records = read(put(tmp_path, data))
    assert good(records) == EVENTS[:6]
    ((at, gap),) = bad(records)
    assert data[at : at + gap.size] == line + b"\n"


@pytest.mark.parametrize("seed", range(4))
def test_a_flipped_bit_in_json_costs_one_event(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    data = json_bytes(EVENTS)
    newlines = [at for at, byte in enumerate(data) if byte == 0x0A]
    for position in [rng.randrange(len(data)) for _ in range(50)] + rng.sample(newlines, 10):
        damaged = bytearray(data)
        damaged[position] ^= 1 << rng.randrange(8)
        records = read(put(tmp_path, bytes(damaged)))
        events = good(records)
        assert sum(event not in events for event in EVENTS) <= 1
        assert len(events) + len(bad(records)) == len(EVENTS)


def test_a_line_without_end_takes_no_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("episub_router.trace.reading.json_lines.MAX_LINE", 10_000)
    monkeypatch.setattr("episub_router.trace.reading.pieces.PIECE", 4096)
    data = json_bytes(EVENTS[:3]) + b"x" * 100_000 + b"\n" + json_bytes(EVENTS[3:6])
    records = read(put(tmp_path, data))
    assert good(records) == EVENTS[:6]
    assert [gap.size for _, gap in bad(records)] == [100_001]


@pytest.mark.parametrize("seed", range(4))
def test_damage_to_gzip_costs_one_member(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    for _ in range(60):
        damaged = bytearray(MEMBERS)
        damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
        records = read(put(tmp_path, bytes(damaged), "trace.gz"))
        events = good(records)
        lost = [number // 20 for number, event in enumerate(EVENTS) if event not in events]
        assert len(set(lost)) <= 1


def test_what_stands_before_damage_to_gzip_is_kept(tmp_path: Path) -> None:
    data = bytearray(gzip.compress(pb_bytes(EVENTS)))
    data[len(data) // 2] ^= 0xFF
    records = read(put(tmp_path, bytes(data)))
    assert good(records)[:90] == EVENTS[:90]
    assert any("damaged" in gap.reason for _, gap in bad(records))


@pytest.mark.parametrize("header_byte", range(10))
def test_a_damaged_gzip_header_costs_nothing(header_byte: int, tmp_path: Path) -> None:
    for bit in range(8):
        data = bytearray(gzip.compress(pb_bytes(EVENTS)))
        data[header_byte] ^= 1 << bit
        assert good(read(put(tmp_path, bytes(data), "trace.pb.gz"))) == EVENTS


def test_a_gzip_file_that_is_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    data = gzip.compress(pb_bytes(EVENTS))
    records = read(put(tmp_path, data[: len(data) // 2]))
    events = good(records)
    assert events == EVENTS[: len(events)]
    assert len(events) > 80
    assert any("cut off" in gap.reason for _, gap in bad(records))


def test_padding_behind_gzip_is_nothing(tmp_path: Path) -> None:
    assert read(put(tmp_path, MEMBERS + bytes(512)))[-1][1] == EVENTS[-1]


def test_all_kinds_of_go_have_their_place() -> None:
    """The order of kinds is that of the types, and of the fields."""
    fields = TraceEvent.DESCRIPTOR.fields_by_name
    assert [fields[name].number for name in TYPED] == list(range(4, 18))
    assert len(TraceEvent.Type.values()) == len(TYPED)
    assert all(
        number < 4 or 4 <= number <= 17 or number >= 100
        for number in (field.number for field in TraceEvent.DESCRIPTOR.fields)
    )
    assert json.loads(to_json(EVENTS[0]))["type"] == EVENTS[0].type
