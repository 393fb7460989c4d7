"""The channel's total order, to be looked at without copying it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import overload

from episub_router.sds.content.messages import LogItem
from episub_router.sds.protocol.entry import Key
from episub_router.sds.protocol.log import Log


class LogView(Sequence[LogItem]):
    """All places, oldest first. It changes as the log does; `tuple(channel.log)` is a copy.

    The length and one place are O(1). Raises IndexError like a tuple.
    """

    __hash__ = None  # type: ignore[assignment]

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

    def __repr__(self) -> str:
        return f"<LogView of {len(self)} messages>"


def _item(log: Log, key: Key) -> LogItem:
    entry = log.get(key[1])
    return LogItem(key[1], entry.sender_id if entry else "", key[0])
