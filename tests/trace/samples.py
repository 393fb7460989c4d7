"""Events of all kinds, and files of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from episub_router.pb.trace_pb2 import TraceEvent as T
from episub_router.trace.output import encode_frame
from episub_router.trace.reading import TraceFile
from episub_router.trace.reading.checking import Check, check
from episub_router.trace.reading.frames import Record, Unreadable
from episub_router.trace.reading.json_lines import to_json

START = 1_763_000_000_000_000_000


def sample_events(count: int, seed: int = 0) -> list[T]:
    """`count` events with ids that look like real ones."""
    rng = Random(seed)
    return [_event(rng, START + 1_000_000 * number) for number in range(count)]


def _event(rng: Random, at: int) -> T:
    base: dict[str, Any] = {"peerID": _peer(rng), "timestamp": at}
    other, topic = _peer(rng), f"topic-{rng.randrange(3)}"
    ids = [rng.randbytes(rng.choice((20, 40, 46))) for _ in range(rng.choice((1, 1, 2, 40)))]
    message = {"messageID": ids[0], "topic": topic}
    copy = {**message, "receivedFrom": other}
    payload = T.PayloadMeta(hops=rng.randrange(9), size=rng.randrange(1 << 16))
    frame = T.FrameMeta(size=1200, payload=1000, topic=topic, seq=at, hops=3, control=["IHAVE"])
    link = {"peerID": other, "topic": topic}
    meta = T.RPCMeta(
        messages=[T.MessageMeta(**message)],
        control=T.ControlMeta(ihave=[T.ControlIHaveMeta(topic=topic, messageIDs=ids)]),
    )
    makers = (
        lambda: T(type=T.PUBLISH_MESSAGE, publishMessage=T.PublishMessage(**message), **base),
        lambda: T(type=T.DELIVER_MESSAGE, deliverMessage=copy, payload=payload, **base),
        lambda: T(type=T.DUPLICATE_MESSAGE, duplicateMessage=copy, payload=payload, **base),
        lambda: T(type=T.REJECT_MESSAGE, rejectMessage={**copy, "reason": "no"}, **base),
        lambda: T(type=T.SEND_RPC, sendRPC={"sendTo": other, "meta": meta}, frame=frame, **base),
        lambda: T(type=T.RECV_RPC, recvRPC={"receivedFrom": other, "meta": meta}, **base),
        lambda: T(type=T.GRAFT, graft=link, tree={"state": "eager"}, **base),
        lambda: T(type=T.LEAVE, leave={"topic": topic}, **base),
        lambda: T(type=T.JOIN, neighbor={**link, "up": False, "reason": "failed"}, **base),
        lambda: T(type=T.JOIN, rtt={"peerID": other, "rtt": 12_345_678}, **base),
    )
    return rng.choice(makers)()


def _peer(rng: Random) -> bytes:
    return b"\x00\x24\x08\x01\x12\x20" + rng.randbytes(32)


def pb_bytes(events: Iterable[T]) -> bytes:
    return b"".join(encode_frame(event.SerializeToString()) for event in events)


def json_bytes(events: Iterable[T]) -> bytes:
    return b"".join(to_json(event).encode() + b"\n" for event in events)


def good(records: Iterable[Record]) -> list[T]:
    """The events among `records`."""
    return [found for _, found in records if not isinstance(found, Unreadable)]


def bad(records: Iterable[Record]) -> list[tuple[int, Unreadable]]:
    """What lies between them."""
    return [(at, found) for at, found in records if isinstance(found, Unreadable)]


def assert_covers(records: Sequence[Record], data: bytes, events: Iterable[T] = ()) -> None:
    """Each byte of `data`, a PB trace, belongs to one of `records`."""
    end = 0
    for at, found in records:
        assert at == end
        if isinstance(found, Unreadable):
            end += found.size
        else:
            end += len(encode_frame(found.SerializeToString()))
    assert end == len(data)


def records_of(path: Path) -> list[Record]:
    with TraceFile(path) as file:
        return list(file)


def events_of(*paths: Path) -> list[T]:
    """The events of files, one after the other."""
    return [event for path in paths for event in good(records_of(path))]


def checked(path: Path) -> Check:
    with TraceFile(path) as file:
        return check(file)


def put(directory: Path, data: bytes, name: str = "trace") -> Path:
    path = directory / name
    path.write_bytes(data)
    return path
