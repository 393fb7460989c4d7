"""Ids waiting to be announced: the lazy queue and what single peers are owed (E30, E33)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from episub_router.protocol.messages import IHave, MessageSummary
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.types import NEVER, PeerId, Time


class Announcing:
    """Gathers summaries until the lazy timer, then makes them into IHAVEs.

    The timer runs only while something waits. Queue and debts are bounded by
    `max_lazy_queue`; the oldest go first.
    """

    __slots__ = ("_owed", "_params", "_queue", "_queued_for", "deadline")

    def __init__(self, params: BroadcastParams) -> None:
        self._params = params
        self._queue: list[MessageSummary] = []
        self._queued_for: dict[PeerId, int] = {}
        """How much of the queue was there when a lazy peer became eager."""
        self._owed: dict[PeerId, list[MessageSummary]] = {}
        self.deadline = NEVER

    def queue(self, summary: MessageSummary, now: Time) -> None:
        """Announce to every peer that is lazy when the timer fires."""
        self._queue.append(summary)
        self._bound(self._queue)
        self._arm(now)

    def owe(self, peer: PeerId, summaries: Iterable[MessageSummary], now: Time) -> None:
        """Announce to `peer`, lazy or not."""
        owed = self._owed.setdefault(peer, [])
        owed.extend(summaries)
        self._bound(owed)
        if owed:
            self._arm(now)
        else:
            del self._owed[peer]

    def no_longer_lazy(self, peer: PeerId) -> None:
        """`peer` was not pushed what is queued now, and is still to be told of it."""
        if self._queue:
            self._queued_for[peer] = len(self._queue)

    def forget(self, peer: PeerId) -> None:
        self._owed.pop(peer, None)
        self._queued_for.pop(peer, None)

    def flush(self, lazy: Collection[PeerId]) -> Iterator[tuple[PeerId, IHave]]:
        """Everything that waits, as IHAVEs of at most `max_ids` ids, and start afresh."""
        queue, self._queue = self._queue, []
        owed, self._owed = self._owed, {}
        queued_for, self._queued_for = self._queued_for, {}
        self.deadline = NEVER
        shared = self._messages(queue)
        for peer in lazy:
            for message in shared:
                yield peer, message
        for peer, length in queued_for.items():
            if peer not in lazy:
                for message in self._messages(queue[:length]):
                    yield peer, message
        for peer, summaries in owed.items():
            for message in self._messages(summaries):
                yield peer, message

    def _messages(self, summaries: list[MessageSummary]) -> list[IHave]:
        size = self._params.max_ids
        return [
            IHave(tuple(summaries[start : start + size]))
            for start in range(0, len(summaries), size)
        ]

    def _bound(self, summaries: list[MessageSummary]) -> None:
        excess = len(summaries) - self._params.max_lazy_queue
        if excess > 0:
            del summaries[:excess]

    def _arm(self, now: Time) -> None:
        if self.deadline == NEVER:
            self.deadline = now + self._params.lazy_interval

    def clear(self) -> None:
        self._queue.clear()
        self._queued_for.clear()
        self._owed.clear()
        self.deadline = NEVER
