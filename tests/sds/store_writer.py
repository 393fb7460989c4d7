"""A process of `test_stores`, which commits to a store until it is killed."""

from __future__ import annotations

from collections.abc import Sequence

from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.entry import LogEntry
from episub_router.sds.protocol.message import Message, Segment
from episub_router.sds.store.sqlite import SqliteStore


def logged(
    message_id: str,
    lamport: int,
    *,
    missing: tuple[str, ...] = (),
    raw: bytes | None = None,
    segment: Segment | None = None,
) -> fx.Logged:
    return fx.Logged(
        Message(message_id=message_id, channel_id="c", segment=segment),
        LogEntry(lamport, "alice", 0),
        raw if raw is not None else message_id.encode(),
        b"o",
        missing,
    )


def main(arguments: Sequence[str]) -> int:
    """Say the number of each commit to the file that `arguments` name, once it is made."""
    (path,) = arguments
    store = SqliteStore(path)
    store.load("c", "alice", 10)
    number = store.count("c") // 3
    while True:
        number += 1
        entries = (logged(f"{number}-{i}", number) for i in range(3))
        store.commit("c", [fx.ClockSet(number), *entries])
        print(number, flush=True)
