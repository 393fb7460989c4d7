"""What keeps a participant's state: one small interface, transactions in the caller's order."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from episub_router.sds.protocol.effects import Change
from episub_router.sds.protocol.entry import Key
from episub_router.sds.protocol.message import Message, MessageId, SenderId
from episub_router.sds.protocol.received import ReceivedMessage, Way
from episub_router.sds.protocol.restored import Restored

Decode: TypeAlias = Callable[[bytes, int | None], Message]
"""A message from its bytes, and its clock where it is known."""


class StoreError(Exception):
    """The store can't be used: damaged, of an unknown version, or somebody else's."""


class StoreFullError(StoreError):
    """There is no room for a commit. Nothing of it was kept; it can be tried again."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What a store keeps, over all its channels; None is no limit.

    `max_age` (s) since receipt, `max_bytes` and `max_messages` of the newest to arrive; checked
    each `interval` (s). What is too old goes when two checks find so: a time of day that is wrong
    at one of them removes nothing.
    """

    max_age: float | None = 30 * 86_400.0
    max_bytes: int | None = 4 * 2**30
    max_messages: int | None = None
    interval: float = 3600.0


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A logged message's bytes, and the proof of its origin that came with them."""

    key: Key
    raw: bytes
    origin: bytes
    sender_id: SenderId = ""


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


@dataclass(frozen=True, slots=True)
class StoredDelivery:
    """The `position`-th message that was delivered here."""

    position: int
    raw: bytes
    missing: tuple[MessageId, ...]
    sender_id: SenderId


@dataclass(frozen=True, slots=True)
class Following:
    """A message of the total order; `late`: it comes after others that belong behind it.

    `arrival`: how far the reader has had what arrived, once it has had this.
    """

    stored: StoredMessage
    late: bool
    arrival: int


@dataclass(slots=True)
class Purged:
    """What was removed from a channel, the newest place of it, and how much of it was unread.

    Messages that come again at or below that place are not taken.
    """

    ids: list[MessageId]
    newest: Key
    unread: int = 0

    def add(self, key: Key, *, unread: bool) -> None:
        self.ids.append(key[1])
        self.newest = max(self.newest, key)
        self.unread += unread


@dataclass(frozen=True, slots=True)
class Saved:
    """A channel as it was when we stopped. `log` is its newest part, in total order.

    `outgoing`: those of ours that are still resent. `departed`, `acks` and `since` are as in
    `Restored`. `damaged` are messages that couldn't be
    read and were removed, each with whether the application was done with it.
    """

    clock: int
    position: int
    floor: Key | None
    log: Sequence[StoredMessage]
    incoming: Sequence[tuple[bytes, bytes]]
    outgoing: Mapping[MessageId, bytes]
    tombstones: Sequence[MessageId]
    departed: Mapping[SenderId, int] = field(default_factory=dict)
    acks: Mapping[SenderId, tuple[int, int]] = field(default_factory=dict)
    damaged: Mapping[MessageId, bool] = field(default_factory=dict)
    since: int | None = None

    def restore(self, decode: Decode) -> Restored:
        """The participant's state, made again from the bytes of its messages."""
        return Restored(
            clock=self.clock,
            position=self.position,
            floor=self.floor,
            log=(_again(stored, decode) for stored in self.log),
            incoming=[
                ReceivedMessage(decode(raw, None), raw, Way.PULLED, None, origin)
                for raw, origin in self.incoming
            ],
            outgoing=self.outgoing,
            tombstones=self.tombstones,
            departed=self.departed,
            acks=self.acks,
            damaged=self.damaged,
            since=self.since,
        )


def _again(stored: StoredMessage, decode: Decode) -> Message:
    message = decode(stored.raw, stored.key[0])
    if message.sender_id:
        return message
    return replace(message, sender_id=stored.sender_id)


class Store(ABC):
    """Holds any number of channels. Calls come one at a time, from any thread."""

    retention: Retention | None = None
    """What `purge` keeps; None is what the participants' logs keep."""

    _aged: float = -math.inf
    """Up to when the last purge found what was received too old."""

    def _too_old_before(self, kept: Retention) -> float:
        """What was received before is too old, at this purge and the last one."""
        before = self._aged
        self._aged = -math.inf if kept.max_age is None else time.time() - kept.max_age
        return min(before, self._aged)

    @abstractmethod
    def load(self, channel_id: str, owner: str, limit: int) -> Saved | None:
        """The channel's state with at most `limit` messages of its log; None if it is new.

        Raises StoreError if the channel belongs to another participant than `owner`: two
        participants with one state would use one clock twice.
        """

    @abstractmethod
    def channels(self) -> list[str]:
        """The channels that have been loaded at some time."""

    @abstractmethod
    def commit(self, channel_id: str, changes: Sequence[Change]) -> None:
        """Apply all changes or, if the process dies, none."""

    @abstractmethod
    def get(
        self, channel_id: str, ids: Iterable[MessageId], size: int | None = None
    ) -> list[StoredMessage]:
        """Those of the messages that are logged; the first of them, up to `size` bytes."""

    @abstractmethod
    def lacked(self, channel_id: str, ids: Iterable[MessageId]) -> list[MessageId]:
        """Those of the messages that aren't logged."""

    @abstractmethod
    def page(
        self,
        channel_id: str,
        after: Key | None,
        until: Key | None,
        items: int,
        size: int,
        *,
        newest_first: bool = False,
        ids_only: bool = False,
    ) -> tuple[list[StoredMessage], bool]:
        """Messages with after < key <= until, ascending, and whether there are more.

        `newest_first`: the last of them, descending. `ids_only`: without their bytes.
        At most `items`, and with their proofs `size` bytes unless the first alone is larger.
        """

    @abstractmethod
    def following(
        self, channel_id: str, place: Key | None, arrival: int, limit: int
    ) -> Following | None:
        """What follows for a reader of the total order that has had everything up to `place`, as
        far as it had arrived with the number `arrival`. None where nothing does.

        What arrived later than that, and belongs before `place`, comes first. Otherwise the next
        message after `place`, if its clock is at most `limit`.
        """

    @abstractmethod
    def count(self, channel_id: str) -> int:
        """How many messages are logged."""

    @abstractmethod
    def gone(self, channel_id: str) -> Key | None:
        """Up to where messages may have been removed; None if none was."""

    @abstractmethod
    def deliveries(self, channel_id: str, after: int, limit: int) -> list[StoredDelivery]:
        """The next deliveries after position `after`, in order."""

    @abstractmethod
    def consumed(self, channel_id: str) -> int:
        """The last position that the application is done with."""

    @abstractmethod
    def set_consumed(self, channel_id: str, position: int) -> None:
        """The application is done with all deliveries up to `position`.

        Those that have left the log meanwhile are removed.
        """

    @abstractmethod
    def offer(self, channel_id: str, position: int) -> int:
        """The delivery at `position` is handed to the application, for the how-many-th time."""

    @abstractmethod
    def trim_unread(self, channel_id: str, limit: int) -> int:
        """Keep at most `limit` deliveries that left the log unread; returns how many went."""

    @abstractmethod
    def purge(self, unread_limit: int | None = None) -> dict[str, Purged]:
        """Remove what `retention` doesn't keep, by channel.

        Except, where `unread_limit` is given, so many of the newest deliveries of each channel as
        the application isn't done with.
        """

    @abstractmethod
    def check_room(self, size: int) -> None:
        """Raises StoreFullError where there is no room for so many bytes."""

    def backup(self, path: str | Path) -> None:
        """Write a copy of the whole store as it is now, while it is in use."""
        raise StoreError("a store in memory has no copy")

    @abstractmethod
    def close(self) -> None:
        """Give up the files. Nothing may be called afterwards."""
