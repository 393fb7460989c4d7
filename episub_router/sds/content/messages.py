"""What an application gets to see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import overload

from episub_router.sds.protocol.entry import Key
from episub_router.sds.protocol.log import Log
from episub_router.sds.protocol.message import MessageId, SenderId


@dataclass(frozen=True, slots=True)
class ChannelMessage:
    """A message of the channel.

    `clock` is None for an ephemeral message. What can't be read (see `ContentUnreadable`) has no
    content, and is found in the history only. Of one that is read in its turn, `cursor` is where to
    go on, `late` says that it belongs before others that came already, and `missing` are ids of
    dependencies that were given up as lost before it was delivered.
    """

    id: MessageId
    sender: SenderId
    content: bytes
    clock: int | None
    missing: tuple[MessageId, ...] = ()
    readable: bool = True
    late: bool = False
    cursor: str = ""

    @property
    def ephemeral(self) -> bool:
        return self.clock is None


@dataclass(frozen=True, slots=True)
class LogItem:
    """A place in the channel's total order. `clock` in milliseconds of Unix time."""

    id: MessageId
    sender: SenderId
    clock: int


class LogView(Sequence[LogItem]):
    """All places, oldest first. It changes as the log does; `tuple(channel.log)` is a copy.

    The length and one place are O(1). Raises IndexError like a tuple.
    """

    def __init__(self, log: Callable[[], Log]) -> None:
        self._log = log

    def __len__(self) -> int:
        return len(self._log())

    @overload
    def __getitem__(self, index: int) -> LogItem: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[LogItem, ...]: ...

    def __getitem__(self, index: int | slice) -> LogItem | tuple[LogItem, ...]:
        log = self._log()
        if isinstance(index, slice):
            indices = range(*index.indices(len(log)))
            return tuple(_item(log, log.place(i)) for i in indices)
        return _item(log, log.place(index + len(log) if index < 0 else index))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LogView | tuple | list):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))


def _item(log: Log, key: Key) -> LogItem:
    entry = log.get(key[1])
    return LogItem(key[1], entry.sender_id if entry else "", key[0])


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What an application made of all messages with clocks up to `until`. A stream goes on at
    `cursor`."""

    state: bytes
    until: int
    cursor: str


@dataclass(frozen=True, slots=True)
class ContentUnreadable:
    """The content of this message can't be read: it isn't delivered."""

    message_id: MessageId
    sender: SenderId
    detail: str


@dataclass(frozen=True, slots=True)
class Damaged:
    """These messages couldn't be read from the store; they are fetched again."""

    message_ids: tuple[MessageId, ...]
