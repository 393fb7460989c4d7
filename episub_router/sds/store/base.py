"""What keeps a participant's state: one small interface, transactions in the caller's order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from episub_router.sds.protocol.effects import Change
from episub_router.sds.protocol.entry import Key, LogEntry
from episub_router.sds.protocol.message import Message, MessageId, SenderId
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.received import ReceivedMessage, Way
from episub_router.sds.protocol.restored import Restored

TOMBSTONES = SdsParams().tombstone_limit
"""Ids given up as lost that a store keeps in mind for a channel, as its participant does."""


class StoreError(Exception):
    """The store can't be used: damaged, of an unknown version, or somebody else's."""


class StoreFullError(StoreError):
    """There is no room for a commit. Nothing of it was kept; it can be tried again."""


@dataclass(frozen=True, slots=True)
class Retention:
    """What a store keeps, over all its channels; None is no limit.

    `max_age` (s) since receipt, `max_bytes` and `max_messages` of the newest to arrive; looked at
    each `interval` (s).
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


def first_that_fit(found: Iterable[StoredMessage], items: int, size: int) -> list[StoredMessage]:
    """The first of these: at most `items`, and with their proofs `size` bytes unless the first
    alone is larger."""
    result: list[StoredMessage] = []
    for stored in islice(found, items):
        size -= len(stored.raw) + len(stored.origin)
        if size < 0 and result:
            break
        result.append(stored)
    return result


@dataclass(frozen=True, slots=True)
class StoredDelivery:
    """The `position`-th message that was delivered here."""

    position: int
    raw: bytes
    missing: tuple[MessageId, ...]
    sender_id: SenderId


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

    `departed`, `acks` and `since` are as in `Restored`. `damaged` are messages that couldn't be
    read and were removed, each with whether the application was done with it.
    """

    clock: int
    position: int
    floor: Key | None
    log: Sequence[tuple[MessageId, LogEntry, bool]]
    incoming: Sequence[tuple[bytes, bytes]]
    outgoing: Sequence[tuple[MessageId, bytes]]
    tombstones: Sequence[MessageId]
    departed: Mapping[SenderId, int] = field(default_factory=dict)
    acks: Mapping[MessageId, Sequence[SenderId]] = field(default_factory=dict)
    damaged: Mapping[MessageId, bool] = field(default_factory=dict)
    since: int | None = None

    def restore(self, decode: Callable[[bytes], Message]) -> Restored:
        """The participant's state, with its buffered messages decoded."""
        return Restored(
            clock=self.clock,
            position=self.position,
            floor=self.floor,
            log=self.log,
            incoming=[
                ReceivedMessage(decode(raw), raw, Way.PULLED, None, origin)
                for raw, origin in self.incoming
            ],
            outgoing=self.outgoing,
            tombstones=self.tombstones,
            departed=self.departed,
            acks=self.acks,
            damaged=self.damaged,
            since=self.since,
        )


class Store(ABC):
    """Holds any number of channels. Calls come one at a time, from any thread."""

    retention: Retention | None = None
    """What `purge` keeps; None is what the participants' logs keep."""

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
    def get(self, channel_id: str, ids: Iterable[MessageId]) -> list[StoredMessage]:
        """Those of the messages that are logged."""

    @abstractmethod
    def get_hashes(self, channel_id: str, hashes: Iterable[bytes]) -> dict[bytes, StoredMessage]:
        """Logged messages by the sha256 of their bytes."""

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
    ) -> tuple[list[StoredMessage], bool]:
        """Messages with after < key <= until, ascending, and whether there are more.

        `newest_first`: the last of them, descending.
        At most `items`, and with their proofs `size` bytes unless the first alone is larger.
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
    def close(self) -> None:
        """Give up the files. Nothing may be called afterwards."""
