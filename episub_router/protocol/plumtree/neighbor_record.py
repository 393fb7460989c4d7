"""One record for each neighbour: a GRAFT makes a promise of it, which any copy from there keeps."""

from __future__ import annotations

from episub_router.protocol.messages import MessageSummary
from episub_router.protocol.types import NEVER, MessageId, PeerId, Time

MAX_PROMISES = 256  # Of one neighbour. Chosen: many messages' worth of evidence
SILENCE = 15.0  # Seconds without a payload. Chosen: 1 MB over eight links of 5 Mbit/s takes 13
LONGEST_BACKLOG = 60.0  # Seconds that break a promise whatever else comes. Chosen: 37 MB, 5 Mbit/s
BROKEN_AT_ONCE = 8
"""Broken promises that cost something within SILENCE. Measured: without a bound a burst of 5,000
messages had honest hosts banned; with 4, p99 under attack is up to 20 % longer."""


class NeighborRecord:
    __slots__ = (
        "asked_at", "broke", "charged_at", "first_announced", "lag", "missed", "missed_since",
        "owed", "payload_at", "peer", "up_at",
    )  # fmt: skip

    def __init__(self, peer: PeerId, now: Time, missed_since: Time = NEVER) -> None:
        self.peer = peer
        self.up_at = now
        self.missed_since = missed_since  # When its former link had failed
        self.missed = 0  # Messages in a row, of all trees, that it did not push as our parent
        self.owed: tuple[MessageSummary, ...] = ()  # What is to be announced to it alone
        self.lag: float | None = None  # Of a standby: from its announcement to the parent's copy
        self.first_announced: dict[MessageId, None] = {}  # Missing, and announced by it first
        self.asked_at: dict[MessageId, Time] = {}  # Its promises, the oldest first
        self.payload_at: Time = -NEVER  # When it last sent a payload, whichever
        self.charged_at: tuple[Time, ...] = ()  # When broken promises cost it something last
        self.broke = False  # Whether it broke a promise, and has sent no payload since

    def ask(self, id: MessageId, now: Time) -> None:
        """It has announced `id`, and gets a GRAFT for it."""
        if len(self.asked_at) < MAX_PROMISES:
            self.asked_at.setdefault(id, now)

    def renew(self, id: MessageId, now: Time) -> None:
        """It announced `id` again: it had no room to send it."""
        if self.asked_at.pop(id, None) is not None:
            self.asked_at[id] = now

    def keep(self, id: MessageId, now: Time) -> bool:
        """A copy of `id` came from it; whether it had been asked for."""
        self.payload_at = now
        self.broke = False
        return self.asked_at.pop(id, None) is not None

    def is_late(self, now: Time, patience: float) -> bool:
        """Whether it owes something for longer than `patience` seconds, or broke a promise and has
        sent no payload since."""
        oldest = next(iter(self.asked_at.values()), now)
        return self.broke or now - oldest > patience

    def count_broken(self, now: Time) -> int:
        """Take out the promises that are broken at `now`; as how many they count."""
        count = 0
        while self.asked_at:
            id, since = next(iter(self.asked_at.items()))
            if now - max(since, self.payload_at) <= SILENCE and now - since <= LONGEST_BACKLOG:
                break
            del self.asked_at[id]
            self.broke = True
            if len(self.charged_at) < BROKEN_AT_ONCE or now - self.charged_at[0] >= SILENCE:
                self.charged_at = (*self.charged_at, now)[-BROKEN_AT_ONCE:]
                count += 1
        return count
