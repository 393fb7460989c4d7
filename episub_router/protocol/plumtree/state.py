"""What Plumtree's procedures share: links, messages, trees and outgoing effects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TypeVar

from episub_router.protocol.effects import Dropped, DropReason, Effect, Send
from episub_router.protocol.messages import MAX_HOPS, MAX_IDS, BroadcastMessage, Graft, Prune
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.plumtree.message_cache import MessageCache
from episub_router.protocol.plumtree.neighbor_record import NeighborRecord
from episub_router.protocol.plumtree.tree import Trees
from episub_router.protocol.standing import KEPT_PROMISE, Standings
from episub_router.protocol.types import NEVER, MessageId, PeerId, RttOf, SourceId, Time
from episub_router.util.timers import TimerMap

T = TypeVar("T")

_UNKNOWN_DELAY = 0.05  # Seconds for a link without an RTT. Chosen: the mean of simulated links


class TreeTask(IntEnum):
    CHOOSE_PARENT = 0
    SEND_ROOT = 1
    REBALANCE = 2


class PlumtreeState:
    """One node's part in one topic's broadcast; only this package uses it."""

    __slots__ = (
        "effects", "first_link_at", "links", "messages", "params", "rtt_of", "standings", "timers",
        "trees",
    )  # fmt: skip

    def __init__(self, params: BroadcastParams, rtt_of: RttOf) -> None:
        self.params = params
        self.rtt_of = rtt_of
        self.links: dict[PeerId, NeighborRecord] = {}  # The neighbours, the oldest first
        self.first_link_at: Time = NEVER
        self.messages = MessageCache(params)
        self.trees = Trees()
        self.timers: TimerMap[tuple[TreeTask, SourceId]] = TimerMap()
        self.standings = Standings()
        self.effects: list[Effect] = []

    def take_effects(self) -> list[Effect]:
        """The effects since the last call, in order."""
        effects, self.effects = self.effects, []
        return effects

    def send(self, peer: PeerId, message: BroadcastMessage) -> None:
        self.effects.append(Send(peer, message))

    def drop(self, peer: PeerId | None, reason: DropReason) -> None:
        self.effects.append(Dropped(peer, reason))

    def note_copy(self, peer: PeerId, id: MessageId, now: Time) -> None:
        """A copy of `id` came from `peer`: it keeps its promise, if it gave one."""
        link = self.links.get(peer)
        if link is not None and link.keep(id, now):
            self.standings.add(peer, KEPT_PROMISE, now)

    def link_delay(self, peer: PeerId) -> float:
        """Seconds that a message takes from `peer` to us."""
        rtt = self.rtt_of(peer)
        return _UNKNOWN_DELAY if rtt is None else rtt / 2

    def check_hops(self, peer: PeerId, hops: int) -> int:
        """`hops` brought into range: the message may be valid though its hop count is not."""
        if 1 <= hops <= MAX_HOPS:
            return hops
        self.drop(peer, DropReason.HOPS_INVALID)
        return min(max(1, hops), MAX_HOPS)

    def capped(self, peer: PeerId, entries: tuple[T, ...]) -> tuple[T, ...]:
        """As many entries of a message of `peer` as one may hold."""
        if len(entries) > MAX_IDS:
            self.drop(peer, DropReason.TOO_MANY_IDS)
        return entries[:MAX_IDS]

    def graft(self, peer: PeerId, source: SourceId | None) -> None:
        self.send(peer, Graft(sources=() if source is None else (source,)))

    def prune(self, peer: PeerId, source: SourceId | None) -> None:
        self.send(peer, Prune(sources=() if source is None else (source,)))


def batched(entries: Sequence[T]) -> Iterator[tuple[T, ...]]:
    """`entries` in batches that one message may hold."""
    for start in range(0, len(entries), MAX_IDS):
        yield tuple(entries[start : start + MAX_IDS])
