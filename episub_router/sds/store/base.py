"""What keeps a participant's state: one small interface, transactions in the caller's order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from episub_router.sds.protocol.effects import Change
from episub_router.sds.protocol.entry import Key, LogEntry
from episub_router.sds.protocol.message import Message, MessageId, SenderId
from episub_router.sds.protocol.received import ReceivedMessage, Way
from episub_router.sds.protocol.restored import Restored


class StoreError(Exception):
    """The store can't be used: damaged, of an unknown version, or somebody else's."""


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A logged message's bytes, and the proof of its origin that came with them."""

    key: Key
    raw: bytes
    origin: bytes
    sender_id: SenderId = ""


@dataclass(frozen=True, slots=True)
class StoredDelivery:
    """The `position`-th message that was delivered here."""

    position: int
    raw: bytes
    missing: tuple[MessageId, ...]
    sender_id: SenderId


@dataclass(frozen=True, slots=True)
class Saved:
    """A channel as it was when we stopped. `log` is its newest part, in total order."""

    clock: int
    position: int
    floor: Key | None
    log: Sequence[tuple[MessageId, LogEntry, bool]]
    incoming: Sequence[tuple[bytes, bytes]]
    outgoing: Sequence[tuple[MessageId, bytes]]
    tombstones: Sequence[MessageId]

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
        )


class Store(ABC):
    """Holds any number of channels. Calls come one at a time, from any thread."""

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
        self, channel_id: str, after: Key | None, until: Key | None, items: int, size: int
    ) -> tuple[list[StoredMessage], bool]:
        """Messages with after < key <= until, ascending, and whether there are more.

        At most `items`, and no more than `size` bytes unless the first alone is larger.
        """

    @abstractmethod
    def count(self, channel_id: str) -> int:
        """How many messages are logged."""

    @abstractmethod
    def deliveries(self, channel_id: str, after: int, limit: int) -> list[StoredDelivery]:
        """The next deliveries after position `after`, in order."""

    @abstractmethod
    def consumed(self, channel_id: str) -> int:
        """The last position that the application is done with."""

    @abstractmethod
    def set_consumed(self, channel_id: str, position: int) -> None:
        """The application is done with all deliveries up to `position`."""

    @abstractmethod
    def close(self) -> None:
        """Give up the files. Nothing may be called afterwards."""
