"""Missing messages: announced by IHAVE and not received yet, with their GRAFT timer (E34-E37).

One timer serves all of them. Each has a time at which it is asked for, of its announcers in turn,
until it arrives or counts as lost.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Container
from enum import IntEnum
from itertools import islice
from typing import TypeAlias

from episub_router.protocol.messages import MessageSummary
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.types import NEVER, MessageId, PeerId, Time

LOST_AFTER = 5.0
"""Seconds after which a message is given up, once each announcer was asked, longer where answers
take long; beyond that, reliability is SDS's task."""

MAX_MISSING = 10_000
"""Messages in the list. iroh-gossip PR 135."""

MAX_MISSING_OF_ONE_PEER = 2_500
"""Messages in the list that one peer announced first. Ours: a quarter, so that one peer that
invents ids leaves room for others."""

MAX_ADDED_BY_ONE_PEER = 1_000
"""Messages that one peer may add in `_IHAVE_WINDOW`. go-libp2p-pubsub: 10 IHAVEs a heartbeat."""

MAX_ANNOUNCERS = 12
"""Announcers remembered of each message: all neighbours, so that liars can't keep the others from
being asked."""

_IHAVE_WINDOW = 0.5
"""Seconds."""

_LOOKED_AT = 16
"""Newest messages of a peer among which one that nobody else announced is looked for."""

_PIGGYBACK = 0.02
"""Seconds before its own time at which a message is asked for beside others (E35)."""

_PENDING_CHECK = 0.5
"""Seconds until a message in validation is looked at again."""

_MOST_BACKOFF = 8
"""What a peer's time to answer is multiplied by at most: twice as much for each GRAFT for the same
message that it got before, so that GRAFTs don't add to the load that delays their answers. As a
retransmission timer does it (RFC 6298, 5.5)."""


class Doubt(IntEnum):
    """What speaks against asking a neighbour for a message."""

    NONE = 0
    LATE = 1
    """It has let an answer wait."""
    BAD = 2
    """Its standing is bad: it is asked beside another."""


DoubtOf: TypeAlias = Callable[[PeerId, Time], Doubt]


class MissingMessage:
    """The announcers of one message with their hop counts, and the neighbours asked for it."""

    __slots__ = ("announced_at", "announcers", "asked", "asked_at", "due")

    def __init__(self, now: Time, due: Time) -> None:
        self.announcers: list[tuple[PeerId, int]] = []
        self.announced_at = now
        """When the first announcement arrived."""
        self.due = due
        """When to ask for it, or to ask the next announcer."""
        self.asked: list[PeerId] = []
        """The neighbours that got a GRAFT for it, in order."""
        self.asked_at: dict[PeerId, Time] = {}
        """When each got the first one."""

    def note_asked(self, peer: PeerId, now: Time) -> int:
        """`peer` gets a GRAFT; returns by what its time to answer is to be multiplied."""
        before = self.asked.count(peer)
        self.asked.append(peer)
        self.asked_at.setdefault(peer, now)
        return int(min(2**before, _MOST_BACKOFF))

    def next_announcers(
        self, neighbors: Container[PeerId], doubt_of: DoubtOf, now: Time
    ) -> list[PeerId]:
        """The announcer that was asked least often, of those the least doubtful, the earliest of
        them; where it is bad, another one, too. None without announcers."""
        left = [peer for peer, _ in self.announcers if peer in neighbors]
        if len(left) < 2:
            return left
        doubts = {peer: doubt_of(peer, now) for peer in left}
        for peer in self.asked:
            if doubts.get(peer) is Doubt.LATE:
                doubts[peer] = Doubt.NONE  # It may be for this message alone.
        left.sort(key=lambda peer: (self.asked.count(peer), doubts[peer]))
        return left[:2] if doubts[left[0]] is Doubt.BAD else left[:1]


class MissingMessages:
    """The missing list and its one timer, which runs only while a message is missing.

    Bounded in messages, in announcers of each, and in what one peer may add, within half a second
    and in all. Where the list is full, the shares of peers are max-min fair.
    """

    __slots__ = ("_added", "_by_id", "_heap", "_held", "_params", "_pushed", "_window_at")

    def __init__(self, params: BroadcastParams) -> None:
        self._params = params
        self._by_id: dict[MessageId, MissingMessage] = {}
        self._heap: list[tuple[Time, int, MessageId]] = []
        """Due times; an entry whose message is gone or due at another time is stale."""
        self._pushed = 0
        self._added: dict[PeerId, int] = {}
        """Messages added in the current window, by first announcer."""
        self._window_at: Time = -NEVER
        self._held: dict[PeerId, dict[MessageId, None]] = {}
        """Messages in the list, by first announcer, oldest first."""

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def deadline(self) -> Time:
        """When the GRAFT timer is next due; infinity while nothing is missing."""
        heap = self._heap
        while heap:
            due, _, id = heap[0]
            missing = self._by_id.get(id)
            if missing is not None and missing.due == due:
                return due
            heapq.heappop(heap)
        return NEVER

    def add_announcement(
        self, peer: PeerId, summary: MessageSummary, now: Time, wait: float
    ) -> PeerId | None:
        """`peer` announced a message that we don't have, to be asked for after `wait` seconds.
        Returns the peer an announcement of which found no room or lost its, if one did."""
        missing = self._by_id.get(summary.id)
        gave_way: PeerId | None = None
        if missing is None:
            if not self._admits(peer, now):
                return peer
            if len(self._by_id) >= MAX_MISSING:
                gave_way = self._make_room(peer)
                if gave_way == peer:
                    return peer
            self._added[peer] = self._added.get(peer, 0) + 1
            self._held.setdefault(peer, {})[summary.id] = None
            missing = self._by_id[summary.id] = MissingMessage(now, now + wait)
            self._schedule(summary.id, missing, missing.due)
        announcers = missing.announcers
        if len(announcers) < MAX_ANNOUNCERS and all(peer != other for other, _ in announcers):
            announcers.append((peer, summary.hops))
            if now + wait < missing.due and not missing.asked:
                self._schedule(summary.id, missing, now + wait)
        return gave_way

    def _admits(self, peer: PeerId, now: Time) -> bool:
        if now - self._window_at >= _IHAVE_WINDOW:
            self._window_at = now
            self._added.clear()
        return (
            self._added.get(peer, 0) < MAX_ADDED_BY_ONE_PEER
            and len(self._held.get(peer, ())) < MAX_MISSING_OF_ONE_PEER
        )

    def _make_room(self, peer: PeerId) -> PeerId:
        """Take a message out for one of `peer`: one of the newest of the peer that holds the most,
        better one that nobody else announced. Returns that peer: `peer` if it has its share."""
        most = max(self._held, key=lambda other: len(self._held[other]))
        held = self._held[most]
        if len(held) <= len(self._held.get(peer, ())) + 1:
            return peer
        newest = list(islice(reversed(held), _LOOKED_AT))
        alone = (id for id in newest if len(self._by_id[id].announcers) == 1)
        self.remove(next(alone, newest[0]))
        return most

    def _schedule(self, id: MessageId, missing: MissingMessage, due: Time) -> None:
        missing.due = due
        self._pushed += 1
        heapq.heappush(self._heap, (due, self._pushed, id))

    def remove(self, id: MessageId) -> MissingMessage | None:
        """The message was received, or given up; returns its entry if there was one."""
        missing = self._by_id.pop(id, None)
        if missing is not None:
            first = missing.announcers[0][0]
            del self._held[first][id]
            if not self._held[first]:
                del self._held[first]
            if not self._by_id:
                self._heap.clear()
        return missing

    def tick(
        self,
        pending: Container[MessageId],
        neighbors: Container[PeerId],
        now: Time,
        patience: Callable[[PeerId, Time], float],
        doubt_of: DoubtOf,
        lost_after: float = LOST_AFTER,
    ) -> tuple[dict[PeerId, list[MessageId]], list[MessageId]]:
        """What is due at `now` (E34).

        Messages in `pending` are in validation and are skipped, but not for longer than one
        validation takes, or invalid copies could suppress a message. `patience` is how many
        seconds a neighbour has to answer, `doubt_of` what speaks against asking it, `lost_after`
        the age in seconds from which a message may be given up. Returns the ids to GRAFT, by the
        neighbour to ask, and the ids given up as lost.
        """
        grafts: dict[PeerId, list[MessageId]] = {}
        lost = []
        while self.deadline <= now + _PIGGYBACK:
            due, _, id = self._heap[0]
            missing = self._by_id[id]
            peers = missing.next_announcers(neighbors, doubt_of, now)
            if due > now and not any(peer in grafts for peer in peers):
                break
            heapq.heappop(self._heap)
            age = now - missing.announced_at
            if id in pending and age < self._params.validation_timeout:
                self._schedule(id, missing, now + _PENDING_CHECK)
            elif age > lost_after and all(peer in missing.asked for peer in peers):
                lost.append(id)
                self.remove(id)
            elif not peers:
                self._schedule(id, missing, now + _PENDING_CHECK)
            else:
                wait = [missing.note_asked(peer, now) * patience(peer, now) for peer in peers]
                self._schedule(id, missing, now + max(wait))
                for peer in peers:
                    grafts.setdefault(peer, []).append(id)
        return grafts, lost

    def on_rejected(self, id: MessageId, now: Time) -> None:
        """No copy of `id` is in validation any more: it is asked for at once."""
        missing = self._by_id.get(id)
        if missing is not None and missing.due > now:
            self._schedule(id, missing, now)

    def on_neighbor_down(self, peer: PeerId, now: Time) -> None:
        """What was asked of `peer` last is asked of the next announcer at once (E37)."""
        for id, missing in self._by_id.items():
            if missing.asked and missing.asked[-1] == peer and missing.due > now:
                self._schedule(id, missing, now)

    def clear(self) -> None:
        self._by_id.clear()
        self._heap.clear()
        self._added.clear()
        self._held.clear()
