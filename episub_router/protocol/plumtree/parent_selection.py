"""Parent selection: which of two neighbours that both push to us stays our parent (E31).

In Plumtree the first copy decides. Where the copy of a much nearer neighbour follows within
milliseconds, that neighbour is the better parent: as fast, over a link that costs less.
Neighbours must not choose each other in a circle, so only one that is ahead of us may be
chosen: it got the message in fewer hops, or in as many and has the smaller id.
"""

from __future__ import annotations

from episub_router.protocol.messages import MAX_HOPS
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.plumtree.message_store import CachedMessage
from episub_router.protocol.plumtree.missing_messages import LOST_AFTER_TICKS
from episub_router.protocol.types import NEVER, PeerId, RttOf, Time

_NEARER_BY = 4.0
"""Least ratio of the RTTs. Ours: a link to another site, or continent, takes longer than that."""


class ParentSelection:
    """Compares the copies of node `me`'s neighbours by order, RTT and lateness."""

    __slots__ = ("_late_since", "_me", "_params", "_prune_expected", "_rtt_of")

    def __init__(self, me: PeerId, params: BroadcastParams, rtt_of: RttOf) -> None:
        self._me = me
        self._params = params
        self._rtt_of = rtt_of
        self._late_since: dict[PeerId, Time] = {}
        """Since when all copies of a neighbour were late."""
        self._prune_expected: dict[PeerId, Time] = {}
        """Until when a PRUNE from a neighbour that we chose counts as sent before our GRAFT."""

    def remove_neighbor(self, peer: PeerId) -> None:
        self._late_since.pop(peer, None)
        self._prune_expected.pop(peer, None)

    def clear(self) -> None:
        self._late_since.clear()
        self._prune_expected.clear()

    def note_first_copy(self, peer: PeerId) -> None:
        """`peer` was the first to push a message."""
        self._late_since.pop(peer, None)

    def tolerates_late_copy(self, peer: PeerId, delay: float, now: Time) -> bool:
        """Whether the link to `peer` stays although its copy came `delay` seconds after the first.

        A peer that had to GRAFT a message pushes it late; that doesn't predict the next message.
        A link with late copies only, for as long as a message may be missing, is pruned.
        """
        params = self._params
        if delay < params.soonest_repair:
            self._late_since.pop(peer, None)
            return False
        since = self._late_since.setdefault(peer, now)
        return now - since <= LOST_AFTER_TICKS * params.missing_tick

    def prefers(self, peer: PeerId, hops: int, arrived_at: Time, first: CachedMessage) -> bool:
        """Whether `peer`, whose copy of `first` has arrived, is a better parent than the first
        copy's sender."""
        window = self._params.near_parent_window
        # At the largest hop count, hops no longer show which peer is ahead.
        ahead = 1 <= hops < MAX_HOPS and (hops - 1, peer) < (first.hops, self._me)
        if not ahead or not 0 < window >= arrived_at - first.arrived_at:
            return False
        near, far = self._rtt_of(peer), self._rtt_of(first.parent)
        return near is not None and far is not None and near * _NEARER_BY <= far

    def expect_crossing_prune(self, peer: PeerId, pushed_at: Time) -> None:
        """`peer` gets a GRAFT for its nearness. We pushed it our copy at `pushed_at`, so its PRUNE
        crosses the GRAFT."""
        rtt = self._rtt_of(peer)
        if rtt is not None:
            self._prune_expected[peer] = pushed_at + 1.25 * rtt

    def is_crossing_prune(self, peer: PeerId, now: Time) -> bool:
        """Whether a PRUNE from `peer` is the one that crossed our GRAFT; counts once."""
        return now <= self._prune_expected.pop(peer, -NEVER)
