"""What Plumtree's procedures share: push peers, tables, timers and outgoing effects."""

from __future__ import annotations

from itertools import islice
from random import Random

from episub_router.protocol.effects import (
    DownReason,
    Dropped,
    DropReason,
    Effect,
    NeighborDown,
    Send,
)
from episub_router.protocol.messages import MAX_HOPS, MAX_IDS, Graft, MessageSummary, Prune
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.plumtree.graft_wait import GraftWait
from episub_router.protocol.plumtree.lazy_push import LazyPushQueue
from episub_router.protocol.plumtree.leading_source import LeadingSource
from episub_router.protocol.plumtree.message_store import MessageStore
from episub_router.protocol.plumtree.missing_messages import MissingMessages
from episub_router.protocol.plumtree.parent_selection import ParentSelection
from episub_router.protocol.plumtree.pending_validation import PendingValidation
from episub_router.protocol.plumtree.push_peers import PushPeers
from episub_router.protocol.plumtree.source_tree import SourceTrees
from episub_router.protocol.standing import Promises, Standings, rules
from episub_router.protocol.types import NEVER, MessageId, PeerId, RttOf, Time

ANNOUNCE_WINDOW = 3.0
"""Seconds of messages that are announced to a new neighbour. gossipsub: three heartbeats."""

_UNNOTICED = 30.0
"""Seconds that a link may have been silent before it counted as failed: three link checks."""

_TOGETHER = 10.0
"""Seconds for which links are silent that fail for one reason, and within which they do. Ours:
under traffic a silent neighbour is noticed within them."""

_MAX_ANNOUNCED = 1_000
"""Ids that are announced to a neighbour whose link had failed; go-libp2p-pubsub: a peer may
announce 5,000 in a heartbeat."""

_MAX_FAILED = 64
"""Links that failed, and are remembered. Ours: several times the active view."""

_UNKNOWN_DELAY = 0.05
"""Seconds for a link without an RTT yet; the mean of simulated links is about that."""

_PRUNE = Prune()
_GRAFT = Graft()


class PlumtreeState:
    """One node's part in one topic's broadcast; only the procedures of this package use it."""

    __slots__ = (
        "_came_back",
        "_silent",
        "effects",
        "epoch",
        "failed_at",
        "first_neighbor_at",
        "graft_wait",
        "lazy_push",
        "leading_source",
        "missing",
        "params",
        "parent_selection",
        "pending",
        "promises",
        "push_peers",
        "rtt_of",
        "standings",
        "store",
        "trees",
    )

    def __init__(
        self, me: PeerId, params: BroadcastParams, rng: Random, rtt_of: RttOf, epoch: int
    ) -> None:
        self.params = params
        self.rtt_of = rtt_of
        self.epoch = epoch
        """Where our rounds of ROOT start: above those that others remember from before."""
        self.trees = SourceTrees(params.source_trees)
        self.graft_wait = GraftWait()
        self.parent_selection = ParentSelection(me, params, rtt_of)
        self.push_peers = PushPeers()
        self.store = MessageStore(params)
        self.missing = MissingMessages(params)
        self.pending = PendingValidation(params)
        self.lazy_push = LazyPushQueue(params, rng)
        self.leading_source = LeadingSource(params.leading_window)
        self.promises = Promises()
        self.standings = Standings()
        self.first_neighbor_at = NEVER
        self.failed_at: dict[PeerId, Time] = {}
        """Neighbours whose links have failed, and when."""
        self._came_back: dict[PeerId, tuple[Time, Time]] = {}
        """Neighbours whose links had failed: when they did, and when they stood again."""
        self._silent: list[tuple[Time, Time]] = []
        """When links failed, and since when they were silent: those that were for longer than what
        any new neighbour is announced."""
        self.effects: list[Effect] = []

    def note_copy(self, peer: PeerId, id: MessageId, now: Time) -> None:
        """A copy of `id` came from `peer`: it keeps its promise, if it gave one."""
        if self.promises.keep(peer, id, now):
            self.standings.add(peer, rules.KEPT_PROMISE, now)

    def take_effects(self) -> list[Effect]:
        """The effects since the last call, in order."""
        effects, self.effects = self.effects, []
        return effects

    def drop(self, peer: PeerId | None, reason: DropReason) -> None:
        self.effects.append(Dropped(peer, reason))

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

    def next_hops(self, hops: int) -> int:
        """The hop count to send on for a message that reached us in `hops`."""
        return min(hops + 1, MAX_HOPS)

    def graft(self, peer: PeerId) -> None:
        """Send `peer` an empty GRAFT."""
        self.effects.append(Send(peer, _GRAFT))

    def prune(self, peer: PeerId) -> None:
        """Make `peer` lazy on both sides (E31); it may be lazy here already."""
        self.push_peers.make_lazy(peer)
        self.effects.append(Send(peer, _PRUNE))

    def swap_parent(self, parent: PeerId, by: PeerId) -> None:
        """Have `by` push to us in place of `parent`: GRAFT to one, PRUNE to the other."""
        self.push_peers.make_eager(by)
        self.push_peers.make_lazy(parent)
        self.graft(by)
        self.effects.append(Send(parent, _PRUNE))

    def note_down(self, event: NeighborDown, now: Time) -> None:
        """A link has ended. If it failed, there may be a partition between; if it had just come
        back, what was announced over it may not have arrived, and the next one begins where it
        did."""
        peer, failed = event.peer, event.reason is DownReason.FAILED
        failed_at, back_at = self._came_back.pop(peer, (NEVER, -NEVER))
        if now - back_at >= _TOGETHER:
            failed_at = now if failed else NEVER
        if failed_at < NEVER:
            self.failed_at.pop(peer, None)
            self.failed_at[peer] = failed_at
            if len(self.failed_at) > _MAX_FAILED:
                del self.failed_at[next(iter(self.failed_at))]
        if failed and now - event.silent_since > ANNOUNCE_WINDOW:
            self._silent.append((now, max(event.silent_since, now - _TOGETHER)))
            del self._silent[:-_MAX_FAILED]

    def announce_recent(self, peer: PeerId, now: Time) -> None:
        """Announce the newest messages to `peer`, which may have missed them; all that are cached
        since its link failed, if it did, or since links that it replaces fell silent."""
        failed_at = self.failed_at.pop(peer, None)
        if failed_at is not None:
            self._came_back[peer] = failed_at, now
        gap_since = self._gap_since(now) if failed_at is None else failed_at - _UNNOTICED
        since = min(gap_since, now - ANNOUNCE_WINDOW)
        most = MAX_IDS if gap_since > since else _MAX_ANNOUNCED
        recent = islice(self.store.recent(since), most)
        newest = [MessageSummary(stored.id, self.next_hops(stored.hops)) for stored in recent]
        self.lazy_push.add_for(peer, reversed(newest), now)

    def _gap_since(self, now: Time) -> Time:
        """Since when messages may not have reached us, or not left us, as several links that failed
        just now were silent. NEVER where one did at most: others brought what it didn't."""
        while self._silent and self._silent[0][0] < now - _TOGETHER:
            del self._silent[0]
        return min(since for _, since in self._silent) if len(self._silent) > 1 else NEVER

    def clear(self) -> None:
        """Forget everything but the ids, so that no message is delivered twice to an application
        that subscribes again soon."""
        self.store.drop_payloads()
        self.push_peers.clear()
        self.parent_selection.clear()
        self.first_neighbor_at = NEVER
        self.failed_at.clear()
        self._came_back.clear()
        self._silent.clear()
        self.promises.clear()
        self.missing.clear()
        self.pending.clear()
        self.lazy_push.clear()
        self.epoch = max([self.epoch, *(tree.round for _, tree in self.trees.items() if tree.own)])
        self.trees.clear()
        self.graft_wait.clear()
