"""Missing messages: announced by IHAVE and not received yet, with their GRAFT timer (E34-E37)."""

from __future__ import annotations

from collections.abc import Container

from episub_router.protocol.messages import MessageSummary
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.types import NEVER, MessageId, PeerId, Time

LOST_AFTER_TICKS = 10
"""Ticks after which a message is given up: about 5 s; beyond that, reliability is SDS's task."""

MAX_MISSING = 10_000
"""Messages in the list. iroh-gossip PR 135."""

MAX_MISSING_OF_ONE_PEER = 2_500
"""Messages in the list that one peer announced first. Ours: a quarter, so that one peer that
invents ids leaves room for others."""

MAX_ADDED_BY_ONE_PEER = 1_000
"""Messages that one peer may add between two ticks. go-libp2p-pubsub: 10 IHAVEs a heartbeat."""

MAX_ANNOUNCERS = 3
"""Announcers remembered of each message. Basalt: sources remembered per missing id."""


class MissingMessage:
    """The announcers of one message with their hop counts, and how long it has been missing."""

    __slots__ = ("announcers", "deferred", "grafts", "ticks")

    def __init__(self) -> None:
        self.announcers: list[tuple[PeerId, int]] = []
        self.ticks = 0
        """Ticks of the timer that found it missing."""
        self.grafts = 0
        """GRAFTs sent for it: the next goes to the next announcer."""
        self.deferred = 0
        """Ticks that skipped it because a copy was in validation."""


class MissingMessages:
    """The missing list and its one timer, which runs only while a message is missing.

    Bounded in messages, in announcers of each, and in what one peer may add, between two ticks and
    in all.
    """

    __slots__ = ("_added", "_by_id", "_held", "_params", "deadline")

    def __init__(self, params: BroadcastParams) -> None:
        self._params = params
        self._by_id: dict[MessageId, MissingMessage] = {}
        self._added: dict[PeerId, int] = {}
        """Messages added since the last tick, by first announcer."""
        self._held: dict[PeerId, int] = {}
        """Messages in the list, by first announcer."""
        self.deadline: Time = NEVER
        """When the GRAFT timer is next due."""

    def __len__(self) -> int:
        return len(self._by_id)

    def add_announcement(self, peer: PeerId, summary: MessageSummary, now: Time) -> bool:
        """`peer` announced a message that we don't have; False if there is no room for it."""
        missing = self._by_id.get(summary.id)
        if missing is None:
            added, held = self._added.get(peer, 0), self._held.get(peer, 0)
            if (
                len(self._by_id) >= MAX_MISSING
                or added >= MAX_ADDED_BY_ONE_PEER
                or held >= MAX_MISSING_OF_ONE_PEER
            ):
                return False
            self._added[peer] = added + 1
            self._held[peer] = held + 1
            missing = self._by_id[summary.id] = MissingMessage()
            if self.deadline == NEVER:
                self.deadline = now + self._params.missing_tick
        announcers = missing.announcers
        if len(announcers) < MAX_ANNOUNCERS and all(peer != other for other, _ in announcers):
            announcers.append((peer, summary.hops))
        return True

    def remove(self, id: MessageId) -> MissingMessage | None:
        """The message was received, or given up; returns its entry if there was one."""
        missing = self._by_id.pop(id, None)
        if missing is not None:
            first = missing.announcers[0][0]
            self._held[first] -= 1
            if not self._held[first]:
                del self._held[first]
        if not self._by_id:
            self._added.clear()
            self.deadline = NEVER
        return missing

    def tick(
        self, pending: Container[MessageId], neighbors: Container[PeerId], now: Time
    ) -> tuple[dict[PeerId, list[MessageId]], list[MessageId]]:
        """One tick of the GRAFT timer (E34).

        Messages in `pending` are in validation and are skipped, but not for longer than one
        validation takes, or invalid copies could suppress a message. Returns the ids to GRAFT, by
        the neighbour to ask, and the ids given up as lost.
        """
        patience = self._params.validation_timeout / self._params.missing_tick
        self._added.clear()
        grafts: dict[PeerId, list[MessageId]] = {}
        lost = []
        waiting = []
        for id, missing in self._by_id.items():
            if id in pending and missing.deferred < patience:
                missing.deferred += 1
                continue
            missing.ticks += 1
            if missing.ticks > LOST_AFTER_TICKS:
                lost.append(id)
            elif missing.ticks == 1:
                waiting.append((id, missing))
            else:
                peer = self._next_announcer(missing, neighbors)
                if peer is not None:
                    grafts.setdefault(peer, []).append(id)
        for id in lost:
            self.remove(id)
        for id, missing in waiting:
            # E35: piggyback what the same peer announced, though it is not yet due.
            peer = next((peer for peer, _ in missing.announcers if peer in grafts), None)
            if peer is not None:
                missing.grafts = 1 + [peer for peer, _ in missing.announcers].index(peer)
                grafts[peer].append(id)
        self.deadline = now + self._params.missing_tick if self._by_id else NEVER
        return grafts, lost

    @staticmethod
    def _next_announcer(missing: MissingMessage, neighbors: Container[PeerId]) -> PeerId | None:
        count = len(missing.announcers)
        for offset in range(count):
            peer = missing.announcers[(missing.grafts + offset) % count][0]
            if peer in neighbors:
                missing.grafts += offset + 1
                return peer
        return None

    def clear(self) -> None:
        self._by_id.clear()
        self._added.clear()
        self._held.clear()
        self.deadline = NEVER
