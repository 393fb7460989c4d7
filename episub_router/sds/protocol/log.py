"""The local log: delivered messages in (Lamport, id) order, and its heads (S06, S09)."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator, Sequence

from episub_router.sds.protocol.entry import Key, LogEntry
from episub_router.sds.protocol.message import MessageId, SenderId
from episub_router.util.bounded import put_last
from episub_router.util.front_list import FrontList

PRINT_SIZE = 16
PASSED = 4096
"""Messages from before what we hold of which it is kept in mind that they needn't come (chosen)."""
DEPARTED = 65_536
"""Senders for which the log keeps what has left it (chosen)."""
_SPARE = 1024
"""Places by which a heap of senders may be longer than needed."""


class Log:
    """Ids in total order. Insertion at the end and eviction near the front are cheap.

    A sender's head is its newest message, unless a logged message refers to it: so there is one for
    each sender at most, and everything else is among the ancestors of heads.
    """

    def __init__(self) -> None:
        self._entries: dict[MessageId, LogEntry] = {}
        self._places: FrontList[Key] = FrontList()
        self._prints = bytearray()
        """Of each place, in the same order."""
        self._by_sender: dict[SenderId, FrontList[Key]] = {}
        """The places of each sender's messages."""
        self._most: list[tuple[int, Key, SenderId]] = []
        """A heap of senders by how many messages they have, negative, since the log is full; those
        that differ from `_by_sender` are out of date."""
        self.added = 0
        """Messages that were ever added."""
        self.heads: dict[MessageId, None] = {}
        """Oldest delivery first."""
        self.floor: Key | None = None
        """Everything up to this place was evicted: it is not compared with others."""
        self.departed: dict[SenderId, int] = {}
        """By sender, the highest clock of its messages that have left the log; under "", that of
        senders that are forgotten."""
        self.since = 0
        """Where we joined late: nothing whose clock is not above this is taken."""
        self._passed: dict[MessageId, None] = {}

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._entries

    def get(self, message_id: MessageId) -> LogEntry | None:
        return self._entries.get(message_id)

    def lacked(self, ids: Iterable[MessageId]) -> list[MessageId]:
        """Those that aren't logged and weren't passed by either, in this order."""
        entries, passed = self._entries, self._passed
        return [i for i in ids if i not in entries and i not in passed]

    def own_seen(self, ids: Iterable[MessageId]) -> int:
        """The clock of our newest message among these and their ancestors."""
        entries = self._entries
        return max((e.own_seen for i in ids if (e := entries.get(i)) is not None), default=0)

    def add(
        self, message_id: MessageId, entry: LogEntry, history: Iterable[MessageId], *, head: bool
    ) -> None:
        """Insert a message. Where `head` is False, something has referred to it already."""
        key = (entry.lamport, message_id)
        self._entries[message_id] = entry
        self.added += 1
        at = self._places.add(key) * PRINT_SIZE
        self._prints[at:at] = _print(key)
        for old in history:
            self.heads.pop(old, None)
        held = self._by_sender.get(entry.sender_id)
        newest = held.last if held else None
        if held is None:
            held = self._by_sender[entry.sender_id] = FrontList()
        held.add(key)
        if self._most:
            heapq.heappush(self._most, (-len(held), held[0], entry.sender_id))
        if newest is None or key > newest:
            if newest is not None:
                self.heads.pop(newest[1], None)
            if head:
                self.heads[message_id] = None

    def evict(self) -> tuple[MessageId, LogEntry]:
        """The sender with most messages in the log yields its oldest one.

        So a flood takes the place of no more than its share, and what others said stays.
        """
        if not self._most or len(self._most) > 4 * len(self._by_sender) + _SPARE:
            self._most = [(-len(h), h[0], sender) for sender, h in self._by_sender.items()]
            heapq.heapify(self._most)
        while True:
            count, _, sender = self._most[0]
            held = self._by_sender.get(sender)
            if held is not None and len(held) == -count:
                break
            heapq.heappop(self._most)
        key = held[0]
        entry = self._entries[key[1]]
        self._remove(key)
        return key[1], entry

    def purge(self, places: Sequence[Key]) -> None:
        """The store doesn't have these any more, nor others up to the newest of them."""
        for key in places:
            if key[1] in self._entries:
                self._remove(key)
        self._raise_floor(max(places))

    def begin(self, since: int) -> None:
        """What has no clock above `since` is none of ours."""
        if since > self.since:
            self.since = since
            while len(self) and self.place(0)[0] <= since:
                self._remove(self.place(0))
            self._raise_floor((since + 1, ""))

    def pass_by(self, message_id: MessageId) -> None:
        """A message that isn't taken: references to it count as met."""
        put_last(self._passed, message_id, None, PASSED)

    def passed(self, message_id: MessageId) -> bool:
        return message_id in self._passed

    def below_floor(self, key: Key) -> bool:
        """Whether a message of this place would have been evicted already."""
        return self.floor is not None and key <= self.floor

    def is_old(self, key: Key, sender: SenderId) -> bool:
        """Whether a message may have been here before, and have left.

        A sender's clock only grows: what is newer than all of its messages that left is new,
        however long ago it was written.
        """
        departed = self.departed
        return key[0] <= max(self.since, departed.get(sender, departed.get("", -1)))

    def newest_by_sender(self) -> dict[SenderId, int]:
        """Those that have messages in the log, each with the clock of its newest one."""
        return {sender: held.last[0] for sender, held in self._by_sender.items()}

    def said_by_its_sender(self, message_id: MessageId) -> int:
        """How many messages its sender has in the log."""
        return len(self._by_sender[self._entries[message_id].sender_id])

    def key(self, message_id: MessageId) -> Key:
        return (self._entries[message_id].lamport, message_id)

    def recent(self) -> Iterator[MessageId]:
        """All ids, the last to be logged first."""
        return reversed(self._entries)

    def place(self, index: int) -> Key:
        """The place at `index` of the order, from 0. Raises IndexError."""
        if not 0 <= index < len(self):
            raise IndexError(f"the log has {len(self)} messages, there is none at {index}")
        return self._places[index]

    def index(self, key: Key) -> int:
        """How many messages come before this place."""
        return self._places.index(key)

    def places(self, after: Key | None = None, until: Key | None = None) -> list[Key]:
        """The places with after < key <= until, ascending."""
        return self._places.between(after, until)

    def size(self, after: Key | None, until: Key | None) -> int:
        """How many messages lie in after < key <= until."""
        low, high = self._places.bounds(after, until)
        return high - low

    def summary(self, salt: bytes, after: Key | None, until: Key | None) -> tuple[int, bytes]:
        """How many messages lie in after < key <= until, and a salted hash over all of them."""
        low, high = self._places.bounds(after, until)
        return high - low, self._hash(salt, low, high)

    def split(
        self, salt: bytes, after: Key | None, until: Key | None, parts: int
    ) -> list[tuple[Key | None, int, bytes]]:
        """The same range cut into equal parts: upper bound, count and hash of each, ascending.

        A bound is a place between two messages: a clock, and as much of an id as tells them apart.
        """
        places = self._places
        low, high = places.bounds(after, until)
        cuts = [low + (high - low) * n // parts for n in range(1, parts)]
        result = []
        for start, end in zip([low, *cuts], [*cuts, high], strict=True):
            if start < end:
                bound = until if end == high else _between(places[end - 1], places[end])
                result.append((bound, end - start, self._hash(salt, start, end)))
        return result

    def _hash(self, salt: bytes, low: int, high: int) -> bytes:
        part = memoryview(self._prints)[low * PRINT_SIZE : high * PRINT_SIZE]
        return hashlib.blake2b(part, digest_size=PRINT_SIZE, key=salt).digest()

    def _remove(self, key: Key) -> None:
        entry = self._entries.pop(key[1])
        sender = entry.sender_id
        self.heads.pop(key[1], None)
        held = self._by_sender[sender]
        held.remove(key)
        if not len(held):
            del self._by_sender[sender]
        elif self._most:
            heapq.heappush(self._most, (-len(held), held[0], sender))
        departed = self.departed
        departed[sender] = max(key[0], departed.pop(sender, 0))
        while len(departed) > DEPARTED:
            clock = departed.pop(next(iter(departed)))
            departed[""] = max(clock, departed.pop("", 0))
        index = self._places.remove(key)
        if index == 0:
            self._raise_floor(key)
        # What is before it moves up, as in `_places`; the front of a bytearray is cut off in O(1).
        end = index * PRINT_SIZE
        self._prints[PRINT_SIZE : PRINT_SIZE + end] = self._prints[:end]
        del self._prints[:PRINT_SIZE]

    def _raise_floor(self, key: Key) -> None:
        self.floor = key if self.floor is None else max(self.floor, key)


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
