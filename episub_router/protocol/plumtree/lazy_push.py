"""Lazy push: ids that wait to be announced with IHAVE (E30, E33), and what new links get (E39)."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from random import Random

from episub_router.protocol.effects import DownReason, NeighborDown
from episub_router.protocol.messages import MAX_IDS, IHave, MessageSummary
from episub_router.protocol.plumtree.message_cache import GossipMessage
from episub_router.protocol.plumtree.state import NeighborRecord, PlumtreeState, batched
from episub_router.protocol.types import NEVER, MessageId, PeerId, Time
from episub_router.util.bounded import put_last

LAZY_DELAY = 0.4  # Seconds to a first id's IHAVE, at most. Measured: sooner brings spare copies
MAX_QUEUED = 5_000  # Ids for all, and for each neighbour. go-libp2p-pubsub: MaxIHaveLength
ANNOUNCE_WINDOW = 3.0  # Seconds that a new neighbour is announced. gossipsub: three heartbeats
_NEWCOMER = 2 * ANNOUNCE_WINDOW  # Seconds: what came then may be old, and would go round for ever
_TOGETHER = 10.0  # Seconds within which links fail for one reason. Chosen: as silence is noticed
_MAX_ANNOUNCED = 750  # Ids, after a failed link: as many as the other side takes
_MAX_FAILED = 64  # Failed links that are remembered. Chosen: several times the active view


class LazyPush:
    """One timer, which runs only while something waits. Its times are random, so that of two
    neighbours one announces first, and the other need not. The oldest ids give way."""

    __slots__ = ("_failed", "_flushed_at", "_queue", "_rng", "_state", "deadline")

    def __init__(self, state: PlumtreeState, rng: Random) -> None:
        self._state = state
        self._rng = rng
        self._queue: dict[MessageId, GossipMessage] = {}
        self._flushed_at: Time = -NEVER
        self._failed: dict[PeerId, tuple[Time, Time]] = {}  # When, and since when silent
        self.deadline: Time = NEVER

    def add(self, message: GossipMessage, now: Time) -> None:
        """Announce `message` to every neighbour that isn't known to hold it."""
        holders = message.holders or {}
        for peer in self._state.links:
            if peer not in holders:
                put_last(self._queue, message.id, message, MAX_QUEUED)
                self._start_timer(now + message.pushed_for)
                return
        message.holders = None

    def add_for(self, link: NeighborRecord, summaries: Iterable[MessageSummary], now: Time) -> None:
        link.owed = (*link.owed, *summaries)[-MAX_QUEUED:]
        if link.owed:
            self._start_timer(now)

    def _start_timer(self, now: Time) -> None:
        if self.deadline == NEVER:
            soon = now + LAZY_DELAY * (0.1 + 0.9 * self._rng.random())
            interval = self._state.params.lazy_interval * (0.5 + self._rng.random() / 2)
            self.deadline = max(soon, self._flushed_at + interval)

    def flush(self, now: Time) -> None:
        """Send all that waits, at most `MAX_IDS` ids in each IHAVE."""
        state, self.deadline, self._flushed_at = self._state, NEVER, now
        queue = [(m.holders or {}, m.summary()) for m in self._queue.values()]
        for message in self._queue.values():
            message.holders = None
        self._queue.clear()
        for peer, link in state.links.items():
            lines = [line for holders, line in queue if peer not in holders]
            lines += link.owed
            link.owed = ()
            for part in batched(lines):
                state.send(peer, IHave(part))

    def on_neighbor_up(self, link: NeighborRecord, now: Time) -> None:
        """Announce the newest messages (E39): since its former link, or several others, fell
        silent."""
        former = self._failed.get(link.peer)
        silent = [
            max(since, at - _TOGETHER)
            for at, since in self._failed.values()
            if at >= now - _TOGETHER
        ]
        gap = former[1] if former else min(silent) if len(silent) > 1 else now
        received_since = self._state.first_link_at + _NEWCOMER
        recent = self._state.messages.recent(gap - ANNOUNCE_WINDOW, received_since)
        newest = islice(recent, MAX_IDS if gap == now else _MAX_ANNOUNCED)
        self.add_for(link, reversed([message.summary() for message in newest]), now)

    def on_neighbor_down(self, link: NeighborRecord, event: NeighborDown, now: Time) -> None:
        """Remember a failed link; one that had just come back failed when its former one did."""
        former = self._failed.pop(link.peer, None)
        if now - link.up_at > _TOGETHER:
            former = None
        if former or event.reason is DownReason.FAILED:
            since = min(now, event.silent_since, former[1] if former else NEVER)
            put_last(self._failed, link.peer, (now, since), _MAX_FAILED)

    def clear(self) -> None:
        self._queue.clear()
        self._failed.clear()
        self.deadline = NEVER
