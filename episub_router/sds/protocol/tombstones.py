"""What was given up as lost: references to it are met, and yet we don't have it (S11)."""

from __future__ import annotations

from collections.abc import Iterable

from episub_router.sds.protocol.message import MessageId
from episub_router.util.bounded import put_last

TOMBSTONES = 10_000
"""Ids given up as lost that are kept in mind (chosen)."""


class Tombstones:
    """At most `TOMBSTONES` ids, oldest first. Beyond it the oldest is forgotten."""

    def __init__(self) -> None:
        self._ids: dict[MessageId, None] = {}
        self.forgotten = False
        """Whether there was more than fits, or may have been before a restart."""

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._ids

    def restore(self, ids: Iterable[MessageId]) -> None:
        newest = list(ids)[-TOMBSTONES:]
        self._ids = dict.fromkeys(newest)
        self.forgotten = len(newest) >= TOMBSTONES

    def add(self, message_id: MessageId) -> None:
        self.forgotten |= put_last(self._ids, message_id, None, TOMBSTONES) is not None

    def came(self, message_id: MessageId) -> bool:
        """The message came after all. False where it wasn't given up."""
        return self._ids.pop(message_id, self) is not self

    def newest(self, count: int) -> tuple[MessageId, ...]:
        """The last `count` ids that were given up."""
        return tuple(self._ids)[-count:] if count else ()
