"""Lazy push: ids that wait to be announced with IHAVE (E30, E33)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from random import Random

from episub_router.protocol.messages import MAX_IDS, IHave, MessageSummary
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.types import NEVER, MessageId, PeerId, Time

LAZY_DELAY = 0.4
"""Seconds until a first id is announced, at most. Measured: sooner brings copies that would have
come by themselves; standbys announce at once."""

MAX_QUEUED = 5_000
"""Ids that wait at most. go-libp2p-pubsub: MaxIHaveLength 5,000."""


class LazyPushQueue:
    """Collects summaries until the lazy timer fires, then turns them into IHAVEs.

    A neighbour known to hold a message gets no summary of it. The timer runs only while something
    waits: LAZY_DELAY after the first id, `lazy_interval` after the last IHAVEs, whichever is
    later, and for a different time at each node: of two neighbours one announces first, and the
    other need not. Bound: `MAX_QUEUED` summaries for all neighbours, and as many for each
    single one; the oldest are removed first.
    """

    __slots__ = ("_flushed_at", "_holders", "_params", "_queue", "_rng", "_to_peer", "deadline")

    def __init__(self, params: BroadcastParams, rng: Random) -> None:
        self._params = params
        self._rng = rng
        self._queue: dict[MessageId, MessageSummary] = {}
        self._holders: dict[MessageId, list[PeerId]] = {}
        """Neighbours known to hold a queued message."""
        self._to_peer: dict[PeerId, list[MessageSummary]] = {}
        """Summaries for a single neighbour."""
        self._flushed_at: Time = -NEVER
        self.deadline: Time = NEVER

    def add(self, summary: MessageSummary, holders: list[PeerId], now: Time) -> None:
        """Announce to every neighbour, except `holders`, when the timer fires."""
        self._queue[summary.id] = summary
        self._holders[summary.id] = holders
        if len(self._queue) > MAX_QUEUED:
            oldest = next(iter(self._queue))
            del self._queue[oldest], self._holders[oldest]
        self._start_timer(now)

    def note_holder(self, id: MessageId, peer: PeerId) -> None:
        """`peer` has pushed or announced a message that we hold."""
        holders = self._holders.get(id)
        if holders is not None and peer not in holders:
            holders.append(peer)

    def add_for(self, peer: PeerId, summaries: Iterable[MessageSummary], now: Time) -> None:
        """Announce to `peer` alone."""
        waiting = [*self._to_peer.get(peer, ()), *summaries][-MAX_QUEUED:]
        if waiting:
            self._to_peer[peer] = waiting
            self._start_timer(now)

    def remove_peer(self, peer: PeerId) -> None:
        self._to_peer.pop(peer, None)

    def flush(self, neighbors: Collection[PeerId], now: Time) -> Iterator[tuple[PeerId, IHave]]:
        """All that waits, as IHAVEs of at most `MAX_IDS` ids each; the queue is empty after it."""
        queue, self._queue = self._queue, {}
        holders, self._holders = self._holders, {}
        to_peer, self._to_peer = self._to_peer, {}
        self.deadline = NEVER
        self._flushed_at = now
        for peer in neighbors:
            new = [entry for id, entry in queue.items() if peer not in holders[id]]
            new += to_peer.get(peer, ())
            for message in self._messages(new):
                yield peer, message

    def _messages(self, summaries: list[MessageSummary]) -> list[IHave]:
        return [
            IHave(tuple(summaries[start : start + MAX_IDS]))
            for start in range(0, len(summaries), MAX_IDS)
        ]

    def _start_timer(self, now: Time) -> None:
        if self.deadline == NEVER:
            soon = now + LAZY_DELAY * (0.1 + 0.9 * self._rng.random())
            spaced = self._flushed_at + self._params.lazy_interval * (0.5 + self._rng.random() / 2)
            self.deadline = max(soon, spaced)

    def clear(self) -> None:
        self._queue.clear()
        self._holders.clear()
        self._to_peer.clear()
        self.deadline = NEVER
