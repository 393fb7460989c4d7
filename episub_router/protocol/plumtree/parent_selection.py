"""Parent selection: which of two neighbours that both push to us stays our parent (E31).

In Plumtree the first copy decides. Where the copy of a much nearer neighbour follows within
milliseconds, that neighbour is the better parent: as fast, over a link that costs less.
Neighbours must not choose each other in a circle, so only one that is ahead of us may be
chosen: it got the message in fewer hops, or in as many and has the smaller id.
"""

from __future__ import annotations

from collections.abc import Mapping

from episub_router.protocol.messages import MAX_HOPS
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.plumtree.lazy_push import LAZY_DELAY
from episub_router.protocol.plumtree.missing_messages import LOST_AFTER
from episub_router.protocol.plumtree.source_tree import RootOffer
from episub_router.protocol.types import NEVER, PeerId, RttOf, Time

KEEP_PARENT = 0.010
"""Seconds that the parent's copy of a ROOT may come after the first one before it is replaced."""

_NEARER_BY = 4.0
"""Least ratio of the RTTs. Ours: a link to another site, or continent, takes longer than that."""

SOONEST_REPAIR = LAZY_DELAY / 2 + 0.1
"""Seconds from a message's arrival until a neighbour that it was announced to can have fetched it
from us and pushed it back."""


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
        if delay < SOONEST_REPAIR:
            self._late_since.pop(peer, None)
            return False
        since = self._late_since.setdefault(peer, now)
        return now - since <= LOST_AFTER

    def prefers(
        self, peer: PeerId, hops: int, delay: float, parent: PeerId | None, our_hops: int
    ) -> bool:
        """Whether `peer`, which is `hops` links from the source by its copy, is a better parent
        than `parent`, whose copy reached us in `our_hops`, `delay` seconds earlier."""
        return (
            0 < self._params.near_parent_window >= delay
            and self.is_much_nearer(peer, parent)
            and self.is_ahead(peer, hops, our_hops)
        )

    def best_offer(
        self, offers: Mapping[PeerId, RootOffer], kept_parent: PeerId | None, our_hops: int
    ) -> PeerId:
        """The parent to take of those that brought a ROOT: the first, or a much nearer one right
        after it, but `kept_parent` where it was hardly later."""
        first = parent = next(iter(offers))
        for peer, offer in offers.items():
            delay = offer.arrived_at - offers[first].arrived_at
            if self.prefers(peer, offer.hops, delay, parent, our_hops):
                parent = peer
        kept = offers.get(kept_parent)
        if (
            kept is not None
            and kept.arrived_at - offers[first].arrived_at <= KEEP_PARENT
            and self.is_ahead(kept_parent, kept.hops, our_hops)
            and not self.is_much_nearer(parent, kept_parent)
        ):
            return kept_parent
        return parent

    def is_much_nearer(self, peer: PeerId, than: PeerId | None) -> bool:
        """Whether the link to `peer` is shorter by a factor of four."""
        near, far = self._rtt_of(peer), self._rtt_of(than)
        return near is not None and far is not None and near * _NEARER_BY <= far

    def is_ahead(self, peer: PeerId, hops: int, our_hops: int) -> bool:
        """Whether `peer` is nearer to the source than we are: fewer links, or as many and the
        smaller id. At the largest hop count, hops no longer show that."""
        return 1 <= hops < MAX_HOPS and (hops - 1, peer) < (our_hops, self._me)

    def expect_crossing_prune(self, peer: PeerId, pushed_at: Time) -> None:
        """`peer` gets a GRAFT for its nearness. We pushed it our copy at `pushed_at`, so its PRUNE
        crosses the GRAFT."""
        rtt = self._rtt_of(peer)
        if rtt is not None:
            self._prune_expected[peer] = pushed_at + 1.25 * rtt

    def is_crossing_prune(self, peer: PeerId, now: Time) -> bool:
        """Whether a PRUNE from `peer` is the one that crossed our GRAFT; counts once."""
        return now <= self._prune_expected.pop(peer, -NEVER)
