"""Lazy push: ids that wait to be announced with IHAVE (E30, E33)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from random import Random

from episub_router.protocol.messages import MAX_IDS, IHave, MessageSummary
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.types import NEVER, MessageId, PeerId, Time

MAX_QUEUED = 5_000
"""Ids that wait at most. go-libp2p-pubsub: MaxIHaveLength 5,000."""


class LazyPushQueue:
    """Collects summaries until the lazy timer fires, then turns them into IHAVEs.

    A peer known to hold a message gets no summary of it. The timer runs only while something
    waits, and for a different time at each node: of two neighbours one announces first, and the
    other need not. Bound: `MAX_QUEUED` summaries for all lazy peers, and as many for each
    single peer; the oldest are removed first.
    """

    __slots__ = (
        "_holders", "_params", "_queue", "_queued_before_eager", "_rng", "_to_peer", "deadline",
    )  # fmt: skip

    def __init__(self, params: BroadcastParams, rng: Random) -> None:
        self._params = params
        self._rng = rng
        self._queue: list[MessageSummary] = []
        self._holders: dict[MessageId, list[PeerId]] = {}
        """Peers known to hold a queued message."""
        self._queued_before_eager: dict[PeerId, int] = {}
        """Length of the queue when a lazy peer became eager."""
        self._to_peer: dict[PeerId, list[MessageSummary]] = {}
        """Summaries for a single peer."""
        self.deadline = NEVER

    def add(self, summary: MessageSummary, holders: Iterable[PeerId], now: Time) -> None:
        """Announce to every peer that is lazy when the timer fires, except `holders`."""
        self._queue.append(summary)
        self._holders[summary.id] = list(holders)
        if len(self._queue) > MAX_QUEUED:
            self._holders.pop(self._queue.pop(0).id, None)
        self._start_timer(now)

    def note_holder(self, id: MessageId, peer: PeerId) -> None:
        """`peer` has pushed or announced a message that we hold."""
        holders = self._holders.get(id)
        if holders is not None and peer not in holders:
            holders.append(peer)

    def add_for(self, peer: PeerId, summaries: Iterable[MessageSummary], now: Time) -> None:
        """Announce to `peer`, lazy or not."""
        waiting = self._to_peer.setdefault(peer, [])
        waiting.extend(summaries)
        del waiting[:-MAX_QUEUED]
        if waiting:
            self._start_timer(now)
        else:
            del self._to_peer[peer]

    def keep_for(self, peer: PeerId) -> None:
        """`peer` has become eager; what is queued now wasn't pushed to it: still announce it."""
        if self._queue:
            self._queued_before_eager[peer] = len(self._queue)

    def remove_peer(self, peer: PeerId) -> None:
        self._to_peer.pop(peer, None)
        self._queued_before_eager.pop(peer, None)

    def flush(self, lazy: Collection[PeerId]) -> Iterator[tuple[PeerId, IHave]]:
        """All that waits, as IHAVEs of at most `MAX_IDS` ids each; the queue is empty after it."""
        queue, self._queue = self._queue, []
        to_peer, self._to_peer = self._to_peer, {}
        before_eager, self._queued_before_eager = self._queued_before_eager, {}
        holders, self._holders = self._holders, {}
        self.deadline = NEVER
        lengths = {peer: len(queue) for peer in lazy}
        for peer, length in before_eager.items():
            lengths.setdefault(peer, length)
        for peer, length in lengths.items():
            new = [entry for entry in queue[:length] if peer not in holders[entry.id]]
            for message in self._messages(new):
                yield peer, message
        for peer, summaries in to_peer.items():
            for message in self._messages(summaries):
                yield peer, message

    def _messages(self, summaries: list[MessageSummary]) -> list[IHave]:
        return [
            IHave(tuple(summaries[start : start + MAX_IDS]))
            for start in range(0, len(summaries), MAX_IDS)
        ]

    def _start_timer(self, now: Time) -> None:
        if self.deadline == NEVER:
            self.deadline = now + self._params.lazy_interval * (0.5 + self._rng.random() / 2)

    def clear(self) -> None:
        self._queue.clear()
        self._holders.clear()
        self._queued_before_eager.clear()
        self._to_peer.clear()
        self.deadline = NEVER
