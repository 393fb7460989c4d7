"""In which order the pieces that wait for one peer are sent."""

from __future__ import annotations

from collections.abc import Collection, Hashable
from typing import Generic, TypeVar

M = TypeVar("M", bound=Hashable)
"""The name of a message."""

T = TypeVar("T")
"""What is sent of a piece."""

TURN = 8
"""Of so many pieces, one is of the message that was served longest ago: a large one comes on beside
any number of others, and those that wait for it see that it does. Measured, 100 nodes, 20 Mbit/s,
five sources at once: p50 / p99 2,045 / 2,969 ms with 4, 1,936 / 3,016 with 8, 1,933 / 2,962 and 1 %
more bytes with 16, as patience runs out; 2,466 / 2,895 where all take turns."""


class PieceTurns(Generic[M, T]):
    """Pieces of several messages that wait for one peer.

    The message goes on of which least is left to send: where each gets its turn, all end together,
    as late as the last one does in any order. Each keeps the order of its pieces.
    """

    __slots__ = ("_left", "_served", "_waiting")

    def __init__(self) -> None:
        self._waiting: dict[M, dict[Hashable, T]] = {}
        """By message and piece; the message that was served longest ago is first."""
        self._left: dict[M, int] = {}
        """Pieces of each that wait, or will come here to be sent."""
        self._served = 0

    def __len__(self) -> int:
        return sum(len(pieces) for pieces in self._waiting.values())

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def put(self, message: M, piece: Hashable, item: T, more: int) -> bool:
        """Add `piece` of `message`, of which `more` will follow that don't wait yet; False if it
        waits already."""
        pieces = self._waiting.setdefault(message, {})
        self._left[message] = more + len(pieces)
        if piece in pieces:
            return False
        pieces[piece] = item
        self._left[message] += 1
        return True

    def first(self) -> T:
        """What is sent next; only while something waits."""
        pieces = self._waiting[self._next()]
        return pieces[next(iter(pieces))]

    def take(self) -> T:
        """The same, which waits no more."""
        message = self._next()
        pieces = self._waiting.pop(message)
        item = pieces.pop(next(iter(pieces)))
        self._left[message] -= 1
        if pieces:
            self._waiting[message] = pieces
        else:
            del self._left[message]
        self._served += 1
        return item

    def _next(self) -> M:
        if len(self._waiting) == 1 or self._served % TURN == TURN - 1:
            return next(iter(self._waiting))
        return min(self._waiting, key=self._left.__getitem__)

    def forget(self, messages: Collection[M]) -> list[T]:
        """The pieces of `messages` are wanted no more; returns what that was."""
        found: list[T] = []
        for message in messages:
            pieces = self._waiting.pop(message, None)
            if pieces is not None:
                del self._left[message]
                found += pieces.values()
        return found

    def messages(self) -> list[M]:
        """Those of which something waits."""
        return list(self._waiting)

    def clear(self) -> None:
        """Nothing waits any more."""
        self._waiting.clear()
        self._left.clear()
