"""The local log: delivered messages in (Lamport, id) order, and its frontier (S06, S09)."""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Iterable

from episub_router.sds.protocol.entry import Key, LogEntry
from episub_router.sds.protocol.message import MAX_LAMPORT, MessageId, SenderId

PRINT_SIZE = 16
_SPARE = 1024
"""Evicted places that may wait to be cut off the lists."""
_PASSED = 4096
"""Messages from before we joined of which it is kept in mind that they needn't come (ours)."""
_DEPARTED = 65_536
"""Senders for which the log keeps what has left it; of others, all counts as left."""


class Log:
    """Ids in total order. Insertion at the end and eviction, the common cases, are O(1)."""

    def __init__(self) -> None:
        self._entries: dict[MessageId, LogEntry] = {}
        self._keys: list[Key] = []
        self._prints = bytearray()
        self._evicted = 0  # at the start of both
        self.added = 0
        """Messages that were ever added."""
        self.heads: dict[MessageId, None] = {}
        """Messages that no logged message refers to, oldest delivery first."""
        self.floor: Key | None = None
        """The newest place that was evicted: what is not above it is taken as known."""
        self.departed: dict[SenderId, int] = {}
        """By sender, the highest clock of its messages that have left the log."""
        self.since = 0
        """Where we joined late: nothing whose clock is not above this is taken."""
        self._passed: dict[MessageId, None] = {}

    def __len__(self) -> int:
        return len(self._keys) - self._evicted

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._entries

    def get(self, message_id: MessageId) -> LogEntry | None:
        return self._entries.get(message_id)

    def lacked(self, ids: Iterable[MessageId]) -> list[MessageId]:
        """Those that aren't logged and weren't passed by either, in this order."""
        entries, passed = self._entries, self._passed
        return [i for i in ids if i not in entries and i not in passed]

    def own_seen(self, ids: Iterable[MessageId]) -> int:
        """The number of our newest message among these and their ancestors."""
        entries = self._entries
        return max((e.own_seen for i in ids if (e := entries.get(i)) is not None), default=0)

    def add(
        self, message_id: MessageId, entry: LogEntry, history: Iterable[MessageId], *, head: bool
    ) -> list[MessageId]:
        """Insert a message; returns the heads that it refers to, which are heads no more."""
        key = (entry.lamport, message_id)
        self._entries[message_id] = entry
        self.added += 1
        if not len(self) or key > self._keys[-1]:
            self._keys.append(key)
            self._prints += _print(key)
        else:
            index = bisect_left(self._keys, key, self._evicted)
            self._keys.insert(index, key)
            self._prints[index * PRINT_SIZE : index * PRINT_SIZE] = _print(key)
        covered = [h for h in dict.fromkeys(history) if h in self.heads]
        for old in covered:
            del self.heads[old]
        if head:
            self.heads[message_id] = None
        return covered

    def evict_oldest(self) -> tuple[MessageId, LogEntry]:
        """Remove the first message of the order and raise the floor to it."""
        key = self._keys[self._evicted]
        self._raise_floor(key)
        self._evicted += 1
        if self._evicted > _SPARE:
            self._cut()
        message_id = key[1]
        entry = self._entries.pop(message_id)
        self.heads.pop(message_id, None)
        self._depart(entry)
        return message_id, entry

    def purge(self, ids: Iterable[MessageId], floor: Key) -> None:
        """The store doesn't have these any more, nor others up to `floor`."""
        gone = [i for i in ids if i in self._entries]
        self._raise_floor(floor)
        for message_id in gone:
            self._depart(self._entries.pop(message_id))
            self.heads.pop(message_id, None)
        if gone:
            self._cut()
            self._keys = [k for k in self._keys if k[1] in self._entries]
            self._prints = bytearray(b"".join(map(_print, self._keys)))

    def begin(self, since: int) -> None:
        """We joined late: what has no clock above `since` is none of ours."""
        if since > self.since:
            self.since = since
            self._raise_floor((since + 1, ""))

    def pass_by(self, message_id: MessageId) -> None:
        """A message from before we joined: references to it count as met."""
        self._passed[message_id] = None
        if len(self._passed) > _PASSED:
            del self._passed[next(iter(self._passed))]

    def below_floor(self, key: Key) -> bool:
        """Whether a message of this place would have been evicted already."""
        return self.floor is not None and key <= self.floor

    def is_old(self, key: Key, sender: SenderId) -> bool:
        """Whether a message may have been here before, and have left.

        A sender's clock only grows: what is newer than all of its messages that left is new,
        however long ago it was written.
        """
        if key[0] <= self.since:
            return True
        unknown = -1 if len(self.departed) < _DEPARTED else MAX_LAMPORT
        return self.below_floor(key) and key[0] <= self.departed.get(sender, unknown)

    def key(self, message_id: MessageId) -> Key:
        return (self._entries[message_id].lamport, message_id)

    def newest(self, count: int) -> list[MessageId]:
        """The last `count` ids of the order, ascending."""
        return [key[1] for key in self._keys[max(self._evicted, len(self._keys) - count) :]]

    def place(self, index: int) -> Key:
        """The place at `index` of the order, from 0. Raises IndexError."""
        if not 0 <= index < len(self):
            raise IndexError(f"the log has {len(self)} messages, there is none at {index}")
        return self._keys[self._evicted + index]

    def before(self, key: Key | None, count: int) -> list[Key]:
        """The last `count` places before `key`, descending; None is after the last."""
        high = bisect_left(self._keys, key, self._evicted) if key else len(self._keys)
        return self._keys[max(self._evicted, high - count) : high][::-1]

    def places(self, after: Key | None = None, until: Key | None = None) -> list[Key]:
        """The places with after < key <= until, ascending."""
        low, high = self._bounds(after, until)
        return self._keys[low:high]

    def summary(self, salt: bytes, after: Key | None, until: Key | None) -> tuple[int, bytes]:
        """How many messages lie in after < key <= until, and a salted hash over all of them."""
        low, high = self._bounds(after, until)
        return high - low, self._hash(salt, low, high)

    def split(
        self, salt: bytes, after: Key | None, until: Key | None, parts: int
    ) -> list[tuple[Key | None, int, bytes]]:
        """The same range cut into equal parts: upper bound, count and hash of each, ascending.

        A bound is a place between two messages: a clock, and as much of an id as tells them apart.
        """
        low, high = self._bounds(after, until)
        cuts = [low + (high - low) * n // parts for n in range(1, parts)]
        result = []
        for start, end in zip([low, *cuts], [*cuts, high], strict=True):
            if start < end:
                bound = until if end == high else _between(self._keys[end - 1], self._keys[end])
                result.append((bound, end - start, self._hash(salt, start, end)))
        return result

    def _hash(self, salt: bytes, low: int, high: int) -> bytes:
        part = memoryview(self._prints)[low * PRINT_SIZE : high * PRINT_SIZE]
        return hashlib.blake2b(part, digest_size=PRINT_SIZE, key=salt).digest()

    def _bounds(self, after: Key | None, until: Key | None) -> tuple[int, int]:
        low = bisect_right(self._keys, after, self._evicted) if after else self._evicted
        high = bisect_right(self._keys, until, self._evicted) if until else len(self._keys)
        return low, max(low, high)

    def _depart(self, entry: LogEntry) -> None:
        clock = self.departed.get(entry.sender_id)
        if clock is not None or len(self.departed) < _DEPARTED:
            self.departed[entry.sender_id] = max(clock or 0, entry.lamport)

    def _raise_floor(self, key: Key) -> None:
        self.floor = key if self.floor is None else max(self.floor, key)

    def _cut(self) -> None:
        del self._keys[: self._evicted]
        del self._prints[: self._evicted * PRINT_SIZE]
        self._evicted = 0


def _print(key: Key) -> bytes:
    data = key[0].to_bytes(8, "big") + key[1].encode()
    return hashlib.blake2b(data, digest_size=PRINT_SIZE).digest()


def _between(low: Key, high: Key) -> Key:
    """The shortest place p with low <= p < high."""
    if low[0] < high[0]:
        return (high[0], "")
    for length in range(1, len(high[1])):
        if high[1][:length] > low[1]:
            return (high[0], high[1][:length])
    return low
