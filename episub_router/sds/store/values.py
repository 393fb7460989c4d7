"""What a store takes and gives."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from episub_router.sds.protocol.entry import Key, StoredMessage
from episub_router.sds.protocol.message import MessageId


class StoreError(Exception):
    """The store can't be used: damaged, of an unknown version, or somebody else's."""


class StoreFullError(StoreError):
    """There is no room for a commit. Nothing of it was kept; it can be tried again."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What a store keeps, over all its channels; None is no limit.

    `max_age` (s) since receipt, `max_bytes` and `max_messages` of the newest to arrive; checked
    each `interval` (s). What is too old goes when two checks, half of that apart by the time of
    day, find so: a time of day that is wrong at one of them removes nothing.
    """

    max_age: float | None = 30 * 86_400.0
    max_bytes: int | None = 4 * 2**30
    max_messages: int | None = None
    interval: float = 3600.0


class SegmentPlace(NamedTuple):
    """A segment of a content: its place, which part it is, and the number of its arrival, none of
    which is as high where it isn't stored."""

    key: Key
    part: int
    arrival: float = math.inf


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where a reader of the total order is: everything up to `place` was read, as far as it had
    come with the number `arrival`."""

    place: Key | None = None
    arrival: int = 0

    def __str__(self) -> str:
        return json.dumps([*(self.place or (-1, "")), self.arrival])

    @classmethod
    def read(cls, text: str | None) -> Cursor:
        """The cursor that was written so; None is the beginning. Raises ValueError."""
        if text is None:
            return cls()
        match json.loads(text):
            case [int(clock), str(message_id), int(arrival)]:
                return cls(None if clock < 0 else (clock, message_id), arrival)
        raise ValueError(f"no cursor: {text!r}")


@dataclass(frozen=True, slots=True)
class Following:
    """A message of the total order, or None, and where a reader is that has had it; `late`: it
    comes after others that belong behind it. `missing`: what it refers to and was given up. `gone`:
    up to there others have left the log.
    """

    stored: StoredMessage | None
    cursor: Cursor
    gone: Key | None
    late: bool = False
    missing: tuple[MessageId, ...] = ()


def first_that_fit(
    found: Iterable[StoredMessage], items: int, size: int
) -> tuple[list[StoredMessage], bool]:
    """The first of these, and whether there are more: at most `items`, and with their proofs `size`
    bytes unless the first alone is larger. No more is read of them than one."""
    result: list[StoredMessage] = []
    for stored in found:
        size -= len(stored.raw) + len(stored.origin)
        if len(result) == items or (size < 0 and result):
            return result, True
        result.append(stored)
    return result, False
