"""Range-based set reconciliation: which messages of a log another one lacks.

The member that asks sends a salt and a hash over each range of its log. Where ours differs, the
answer cuts the range into parts, or names its messages where they are few. The salt is new each
time, so that nobody can choose messages whose hashes cancel out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from episub_router.sds.protocol.entry import Key, RangeHash
from episub_router.sds.protocol.log import Log

SALT_SIZE = 16
FANOUT = 16
"""Parts of a range that differs: four round trips for 65,536 messages (chosen)."""
LEAF = 16
"""Messages up to which a range is answered by their places (chosen)."""
MAX_RANGES = 64
"""Ranges of one request; an answer has at most FANOUT parts or LEAF places for each."""


@dataclass(frozen=True, slots=True)
class LogComparison:
    """What differs: parts of ranges, and places of messages. `older`: how many there are besides,
    up to `floor`; they can be had by range.
    """

    parts: tuple[RangeHash, ...] = ()
    keys: tuple[Key, ...] = ()
    floor: Key | None = None
    older: int = 0


def disjoint(ranges: Sequence[RangeHash]) -> bool:
    """Whether ranges are ascending and don't overlap, so that comparing them costs one pass."""
    return all(
        a.until is not None and b.after is not None and a.until <= b.after
        for a, b in pairwise(ranges)
    )


def compare(log: Log, salt: bytes, ranges: Sequence[RangeHash], stored: int) -> LogComparison:
    """Answer a peer from our log, whose store has `stored` messages."""
    parts: list[RangeHash] = []
    keys: list[Key] = []
    for asked in ranges[:MAX_RANGES]:
        after = asked.after
        if log.floor is not None and (after is None or after < log.floor):
            after = log.floor
        count, value = log.summary(salt, after, asked.until)
        if (count, value) == (asked.count, asked.hash):
            continue
        if after != asked.after:
            parts.append(RangeHash(after, asked.until, count, value))
        elif count <= LEAF:
            keys += log.places(after, asked.until)
        else:
            for until, size, part in log.split(salt, after, asked.until, FANOUT):
                parts.append(RangeHash(after, until, size, part))
                after = until
    older = max(0, stored - log.size(log.floor, None)) if log.floor is not None else 0
    return LogComparison(tuple(parts), tuple(keys), log.floor, older)
