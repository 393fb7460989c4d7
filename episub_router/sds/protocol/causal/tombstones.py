"""What was given up as lost: references to it are met, and yet we don't have it (S11)."""

from __future__ import annotations

from collections.abc import Iterable

from episub_router.sds.protocol.message import MessageId
from episub_router.sds.protocol.params import SdsParams


class Tombstones:
    """At most `tombstone_limit` ids, oldest first. Beyond it the oldest is forgotten."""

    def __init__(self, params: SdsParams) -> None:
        self._params = params
        self._ids: dict[MessageId, None] = {}
        self.forgotten = False
        """Whether there was more than fits, or may have been before a restart."""

    def __len__(self) -> int:
        return len(self._ids)

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._ids

    def restore(self, ids: Iterable[MessageId]) -> None:
        newest = list(ids)[-self._params.tombstone_limit :]
        self._ids = dict.fromkeys(newest)
        self.forgotten = len(newest) >= self._params.tombstone_limit

    def add(self, message_id: MessageId) -> None:
        self._ids[message_id] = None
        if len(self._ids) > self._params.tombstone_limit:
            del self._ids[next(iter(self._ids))]
            self.forgotten = True

    def came(self, message_id: MessageId) -> bool:
        """The message came after all. False where it wasn't given up."""
        return self._ids.pop(message_id, self) is not self

    def newest(self, count: int) -> tuple[MessageId, ...]:
        """The last `count` ids that were given up."""
        return tuple(self._ids)[-count:] if count else ()
