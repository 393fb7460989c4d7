"""What Plumtree's procedures share: neighbours, messages, trees and outgoing effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TypeVar

from episub_router.protocol.effects import Outbox
from episub_router.protocol.messages import MAX_IDS, MessageSummary
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.plumtree.message_cache import MessageCache
from episub_router.protocol.plumtree.tree import Trees
from episub_router.protocol.standing import KEPT_PROMISE, Standings
from episub_router.protocol.types import NEVER, MessageId, PeerId, RttOf, SourceId, SourceOf, Time
from episub_router.util.timers import TimerMap

T = TypeVar("T")

UNKNOWN_DELAY = 0.05  # Seconds for a link without an RTT. Chosen: the mean of simulated links
FIRST_LAG = 0.02  # Seconds. Measured: 1,000 nodes, five sources, 10 % crashes and 5 % losses
_MOST_LAG = 0.5  # Seconds. Chosen: a lazy neighbour announces by then
_LAG_GAIN = 1 / 4  # RFC 6298: as the spread of a round-trip time
_LAG_DECAY = 1 / 20
LATE_ANSWER = 0.5  # Seconds. Chosen: two round trips of the longest links
_ANSWER_TIME = 0.05  # Seconds beside two round trips for an answer. Measured: one doubles p99
MAX_PROMISES = 8
"""Of one neighbour: so many may break within SILENCE. Measured: without a bound a burst of 5,000
messages had honest hosts banned; with 4, p99 under attack is up to 20 % longer."""
SILENCE = 15.0  # Seconds without a payload. Chosen: 1 MB over eight links of 5 Mbit/s takes 13
MAX_DEBTORS = 64  # Chosen: several times the active view
LONGEST_BACKLOG = 60.0  # Seconds that break a promise whatever else comes. Chosen: 37 MB, 5 Mbit/s


class NeighborRecord:
    """A GRAFT makes a promise of a neighbour, which any copy from there keeps."""

    __slots__ = (
        "answered", "asked_at", "doubted", "first_announced", "lag", "owed", "payload_at", "peer",
        "up_at",
    )  # fmt: skip

    def __init__(self, peer: PeerId) -> None:
        self.peer = peer
        self.up_at: Time = -NEVER  # When its link came up
        self.owed: tuple[MessageSummary, ...] = ()  # What is to be announced to it alone
        self.first_announced: dict[MessageId, None] = {}  # Missing, and announced by it first
        self.lag = FIRST_LAG  # Seconds from its announcement until a message comes by itself
        self.asked_at: dict[MessageId, Time] = {}  # Its promises, the oldest first
        self.answered: Time = -NEVER  # When it was asked for what it last brought in time
        self.payload_at: Time = -NEVER  # When it last sent a payload, whichever
        self.doubted = False  # Whether its last promise was broken, or kept late

    def note_lag(self, late: float) -> None:
        """A message that it announced came by itself `late` seconds after that."""
        self.lag = min(_MOST_LAG, smoothed(self.lag, late))

    def ask(self, id: MessageId, now: Time) -> None:
        """It has announced `id`, and gets a GRAFT for it."""
        if len(self.asked_at) < MAX_PROMISES:
            self.asked_at.setdefault(id, now)

    def keep(self, id: MessageId, now: Time) -> bool:
        """A copy of `id` came from it; whether it had been asked for."""
        self.payload_at = now
        since = self.asked_at.pop(id, None)
        if since is not None:
            self.doubted = now - since > LATE_ANSWER
            if not self.doubted:
                self.answered = since
        return since is not None

    def unanswered(self, now: Time, patience: float) -> int:
        """Answers in a row that it owes for longer than `patience` seconds, and one more if it is
        doubted: what was asked for before its last answer in time may have been lost."""
        late = [at for at in self.asked_at.values() if self.answered < at < now - patience]
        return len(late) + self.doubted

    def count_broken(self, now: Time) -> int:
        """Take out the promises that are broken at `now`."""
        count = 0
        while self.asked_at:
            id, since = next(iter(self.asked_at.items()))
            if now - max(since, self.payload_at) <= SILENCE and now - since <= LONGEST_BACKLOG:
                break
            del self.asked_at[id]
            self.doubted = self.doubted or since > self.answered
            count += 1
        return count


class TreeTask(IntEnum):
    CHOOSE_PARENT = 0
    SEND_ROOT = 1
    REBALANCE = 2


class PlumtreeState(Outbox):
    """One node's part in one topic's broadcast; only this package uses it."""

    __slots__ = (
        "debtors", "eager", "first_link_at", "links", "messages", "params", "rtt_of",
        "source_of", "standings", "timers", "trees",
    )  # fmt: skip

    def __init__(self, params: BroadcastParams, rtt_of: RttOf, source_of: SourceOf) -> None:
        super().__init__()
        self.params = params
        self.rtt_of = rtt_of
        self.source_of = source_of
        self.links: dict[PeerId, NeighborRecord] = {}  # The oldest first
        self.debtors: dict[PeerId, NeighborRecord] = {}  # Former neighbours that owed something
        self.eager: dict[PeerId, None] = {}  # Neighbours to push to in the shared tree
        self.first_link_at: Time = NEVER
        self.messages = MessageCache(params)
        self.trees = Trees()
        self.timers: TimerMap[tuple[TreeTask, SourceId]] = TimerMap()
        self.standings = Standings()

    def note_copy(self, peer: PeerId, id: MessageId, now: Time) -> None:
        """A copy of `id` came from `peer`: it keeps its promise, if it gave one."""
        link = self.links.get(peer)
        if link is not None and link.keep(id, now):
            self.standings.add(peer, KEPT_PROMISE, now)

    def patience(self, peer: PeerId) -> float:
        """Seconds that a neighbour has to answer a GRAFT."""
        rtt = self.rtt_of(peer)
        return LATE_ANSWER if rtt is None else min(LATE_ANSWER, 2 * rtt + _ANSWER_TIME)

    def link_delay(self, peer: PeerId) -> float:
        """Seconds that a message takes from `peer` to us."""
        rtt = self.rtt_of(peer)
        return UNKNOWN_DELAY if rtt is None else rtt / 2


def smoothed(usual: float, late: float) -> float:
    """The usual delay, in seconds, after one of `late`."""
    return usual + (_LAG_GAIN if late > usual else _LAG_DECAY) * (late - usual)


def batched(entries: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """`entries` in batches that one message may hold."""
    for start in range(0, len(entries), MAX_IDS):
        yield tuple(entries[start : start + MAX_IDS])
