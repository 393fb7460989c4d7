"""What our messages tell of our log: causal history and filter of received ids (S03, S07)."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable

from episub_router.sds.bloom import FilterCodec, RollingFilter
from episub_router.sds.protocol.causal.log import Log
from episub_router.sds.protocol.message import HistoryEntry, MessageId
from episub_router.sds.protocol.params import SdsParams


class Frontier:
    """Chooses by order of reception: a far-future clock makes no message more recent."""

    def __init__(
        self, log: Log, filters: FilterCodec, params: SdsParams, rng: random.Random
    ) -> None:
        self._log = log
        self._rng = rng
        self._params = params
        self._filter = RollingFilter(filters, params.bloom_keep)
        self._received: deque[MessageId] = deque(maxlen=self._filter.keep)
        self._delivered: deque[MessageId] = deque(maxlen=params.causal_history)
        self.last_own: MessageId | None = None

    def received(self, message_id: MessageId) -> None:
        """Into the filter, which is rolled over at its capacity to the newest ids."""
        if self._filter.full:
            self._filter.refill(self._received)
        self._filter.add(message_id)
        self._received.append(message_id)

    def delivered(self, message_id: MessageId) -> None:
        self._delivered.append(message_id)

    def restore(self, delivered: Iterable[MessageId], buffered: Iterable[MessageId]) -> None:
        """Start from these ids, oldest first."""
        self._delivered.extend(delivered)
        self._received.extend([*self._log.newest(self._filter.keep), *buffered])
        self._filter.refill(self._received)

    def filter_bytes(self) -> bytes:
        return self._filter.dump()

    def history(self, *, short: bool = False) -> list[HistoryEntry]:
        """Heads first, then our last message, at most `heads_named`; then the newest, up to
        `causal_history`.

        A head that isn't named leaves a hole in the causal order. Where there are more than that
        it's a random choice, so that over time all are named. Our last message always has a
        place: so ours form a chain, and a member that has one has those before it.

        `short`: only the heads, where all have room: everything else is among their ancestors.
        """
        own = self.last_own
        if own is not None and own not in self._log:
            own = None
        heads = [h for h in self._log.heads if h != own]
        room = self._params.heads_named - (own is not None)
        if short and len(heads) <= room:
            return [HistoryEntry(h) for h in self._log.heads]
        if len(heads) > room:
            heads = self._rng.sample(heads, room)
        chosen = dict.fromkeys(heads)
        if own is not None:
            chosen[own] = None
        for recent in reversed(self._delivered):
            if len(chosen) >= self._params.causal_history:
                break
            if recent in self._log:
                chosen[recent] = None
        return [self._entry(i) for i in chosen]

    def _entry(self, message_id: MessageId) -> HistoryEntry:
        entry = self._log.get(message_id)
        return HistoryEntry(message_id, None, entry.sender_id if entry else None)
