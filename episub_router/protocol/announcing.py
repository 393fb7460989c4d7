"""Ids waiting to be announced: the lazy queue and what single peers are owed (E30, E33)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from random import Random

from episub_router.protocol.messages import IHave, MessageSummary
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.types import NEVER, MessageId, PeerId, Time


class Announcing:
    """Gathers summaries until the lazy timer, then makes them into IHAVEs.

    A peer that is known to hold a message is not told of it. The timer runs only while
    something waits, and for a time of its own at each node: of two neighbours one announces
    first, and the other need not. Queue and debts are bounded by `max_lazy_queue`; the oldest
    go first.
    """

    __slots__ = ("_holders", "_owed", "_params", "_queue", "_queued_for", "_rng", "deadline")

    def __init__(self, params: BroadcastParams, rng: Random) -> None:
        self._params = params
        self._rng = rng
        self._queue: list[MessageSummary] = []
        self._holders: dict[MessageId, list[PeerId]] = {}
        """Who is known to hold what is queued; without an entry, nobody."""
        self._queued_for: dict[PeerId, int] = {}
        """How much of the queue was there when a lazy peer became eager."""
        self._owed: dict[PeerId, list[MessageSummary]] = {}
        self.deadline = NEVER

    def queue(self, summary: MessageSummary, holders: Iterable[PeerId], now: Time) -> None:
        """Announce to every peer that is lazy when the timer fires, but not to `holders`."""
        self._queue.append(summary)
        self._holders[summary.id] = list(holders)
        if len(self._queue) > self._params.max_lazy_queue:
            self._holders.pop(self._queue.pop(0).id, None)
        self._arm(now)

    def held(self, id: MessageId, peer: PeerId) -> None:
        """`peer` has pushed or announced what we have."""
        holders = self._holders.get(id)
        if holders is not None and peer not in holders:
            holders.append(peer)

    def owe(self, peer: PeerId, summaries: Iterable[MessageSummary], now: Time) -> None:
        """Announce to `peer`, lazy or not."""
        owed = self._owed.setdefault(peer, [])
        owed.extend(summaries)
        del owed[: -self._params.max_lazy_queue]
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
        holders, self._holders = self._holders, {}
        self.deadline = NEVER
        told = {peer: len(queue) for peer in lazy}
        for peer, length in queued_for.items():
            told.setdefault(peer, length)
        for peer, length in told.items():
            new = [entry for entry in queue[:length] if peer not in holders[entry.id]]
            for message in self._messages(new):
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

    def _arm(self, now: Time) -> None:
        if self.deadline == NEVER:
            self.deadline = now + self._params.lazy_interval * (0.5 + self._rng.random() / 2)

    def clear(self) -> None:
        self._queue.clear()
        self._holders.clear()
        self._queued_for.clear()
        self._owed.clear()
        self.deadline = NEVER
