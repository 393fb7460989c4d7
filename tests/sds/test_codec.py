"""The codec and the filters under arbitrary input."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from episub_router.pb import sds_pb2
from episub_router.sds.interop import Interop, WireFormat
from episub_router.sds.interop.bloom import Geometry, js_filter
from episub_router.sds.interop.dialect import InteropDialect
from episub_router.sds.protocol.log import Log
from episub_router.sds.protocol.message import HistoryEntry, Kind, Message, Segment
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.wire.codec import Codec, SdsWireError

CODEC = Interop().codec(SdsParams(), lambda: 0)
OWN = Codec(SdsParams())
ids = st.text(min_size=1, max_size=40)
entries = st.builds(
    HistoryEntry, ids, st.none() | st.binary(max_size=40), st.none() | st.text(max_size=20)
)


@given(
    st.builds(
        Message,
        sender_id=st.text(min_size=1, max_size=20),
        message_id=ids,
        channel_id=st.text(max_size=20),
        lamport=st.integers(0, 2**64 - 1),
        causal_history=st.lists(entries, max_size=10).map(tuple),
        bloom_filter=st.none() | st.binary(max_size=100),
        repair_request=st.lists(entries, max_size=10).map(tuple),
        content=st.none() | st.binary(max_size=100),
    )
)
@pytest.mark.slow
def test_current_schema_round_trip(message: Message) -> None:
    assert CODEC.decode(CODEC.encode(message)[0]) == message


@given(st.lists(ids.filter(lambda i: not i.startswith("\n")), max_size=5))
def test_seed_history_round_trip(history: list[str]) -> None:
    message = Message(
        message_id="m",
        channel_id="0",
        lamport=5,
        causal_history=tuple(HistoryEntry(i) for i in history),
        content=b"x",
    )
    codec = Interop(WireFormat.SEED).codec(SdsParams(), lambda: 0)
    assert codec.decode(codec.encode(message)[0]) == message


@given(
    st.builds(
        Message,
        sender_id=st.text(max_size=20),
        channel_id=st.text(max_size=20),
        lamport=st.integers(0, 2**64 - 1),
        causal_history=st.lists(ids.map(HistoryEntry), max_size=10).map(tuple),
        repair_request=st.lists(entries, max_size=10).map(tuple),
        content=st.none() | st.binary(max_size=100),
        gaps=st.lists(ids, max_size=5).map(tuple),
        since=st.integers(0, 2**64 - 1),
    )
    | st.builds(
        Message,
        lamport=st.integers(0, 2**64 - 1),
        channel_id=st.text(max_size=20),
        content=st.binary(min_size=1, max_size=100),
        segment=st.builds(
            Segment, st.binary(min_size=32, max_size=32), st.just(3), st.just(7), st.integers(0, 9)
        ),
    ),
    st.sampled_from(
        [
            {"sender_id": "another"},
            {"channel_id": "another"},
            {"lamport": 2**64 - 1},
            {"content": b"another"},
            {"causal_history": (HistoryEntry("another"),)},
            {"segment": Segment(bytes(32), 0, 1, 7)},
        ]
    ),
)
def test_an_id_is_the_hash_of_all_that_a_message_says(
    message: Message, change: dict[str, Any]
) -> None:
    """Two histories under one id made receipts name members that hadn't got the message."""
    raw, message_id = OWN.encode(message)
    assert OWN.decode(raw) == replace(message, message_id=message_id)
    assert CODEC.decode(raw).message_id == message_id
    other = replace(message, **change)
    assert (OWN.encode(other)[1] == message_id) == (other == message)


def test_a_message_of_another_implementation_is_for_the_interop_mode() -> None:
    for foreign in (
        sds_pb2.SdsMessage(sender_id="s", message_id="m", lamport_timestamp=1, content=b"x"),
        sds_pb2.SdsMessage(sender_id="s", lamport_timestamp=1, bloom_filter=b"x"),
        sds_pb2.SdsMessage(sender_id="s", lamport_timestamp=1, causal_history=[b"h"]),
    ):
        data = foreign.SerializeToString()
        with pytest.raises(SdsWireError, match="foreign"):
            OWN.decode(data)
        assert CODEC.decode(data).sender_id == "s"


@given(st.binary(max_size=300))
def test_garbage_is_rejected_by_name_or_read(data: bytes) -> None:
    try:
        message = CODEC.decode(data)
    except SdsWireError:
        return
    assert message.kind is not None


@given(st.binary(min_size=1, max_size=60))
def test_any_history_entry_is_read_or_rejected(data: bytes) -> None:
    pb = sds_pb2.SdsMessage(message_id="m", lamport_timestamp=1, causal_history=[data])
    try:
        (entry,) = CODEC.decode(pb.SerializeToString()).causal_history
    except SdsWireError:
        return
    assert entry.message_id


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"message_id": "i" * 257}, "bad-id"),
        ({"channel_id": "c" * 257}, "bad-channel"),
        ({"sender_id": "s" * 257}, "bad-sender"),
        ({"causal_history": [b"x"] * 10_000}, "history-too-long"),
        ({"causal_history": [b""]}, "bad-id"),
        ({"causal_history": [b"\xff"]}, "bad-history"),
        ({"content": b"x" * 2**20}, "oversized"),
        ({"content": b"", "lamport_timestamp": None}, "empty"),
    ],
)
def test_rejections_name_reason_and_sender(change: dict[str, object], reason: str) -> None:
    fields = {"sender_id": "mallory", "message_id": "m", "lamport_timestamp": 1, "content": b"x"}
    pb = sds_pb2.SdsMessage(**{**fields, **change})
    with pytest.raises(SdsWireError) as error:
        CODEC.decode(pb.SerializeToString())
    assert error.value.reason == reason
    if reason not in ("oversized", "bad-sender"):
        assert error.value.sender_id == "mallory"


def test_many_repair_requests_cost_only_themselves() -> None:
    pb = sds_pb2.SdsMessage(message_id="m", lamport_timestamp=1, content=b"x")
    pb.repair_request.extend(sds_pb2.HistoryEntry(message_id=str(i)) for i in range(5000))
    message = CODEC.decode(pb.SerializeToString())
    assert [e.message_id for e in message.repair_request] == [str(i) for i in range(16)]
    assert message.kind is Kind.CONTENT


def test_rolled_over_filter_holds_the_newest_and_stays_under_its_rate() -> None:
    codec = js_filter(100, 0.01)
    dialect = InteropDialect(codec, history=2)
    for i in range(1000):
        dialect.received(f"id-{i}")
    received = codec.load(dialect.fill(Message(channel_id="c"), Log()).bloom_filter)
    assert all(received.holds(codec.base_hash(f"id-{i}")) for i in range(925, 1000))
    strangers = sum(received.holds(codec.base_hash(f"no-{i}")) for i in range(5000))
    assert strangers / 5000 < 0.02
    assert received.false_positive_rate() < 0.02


@given(st.binary(max_size=200))
def test_unusable_filters_are_none(data: bytes) -> None:
    codec = js_filter(100, 0.01)
    loaded = codec.load(data)
    assert (loaded is None) == (len(data) != 128)


@pytest.mark.parametrize("values", [(0, 0.1, 1, 1), (1, 1.0, 1, 1), (1, 0.1, 0, 1), (1, 0.1, 1, 0)])
def test_impossible_geometry_is_refused(values: tuple[int, float, int, int]) -> None:
    with pytest.raises(ValueError, match=r"at least 1|between 0 and 1"):
        Geometry(*values)
