"""Parent selection: which of two neighbours that both push to us stays our parent (E31).

In Plumtree the first copy decides. Where the copy of a much nearer neighbour follows within
milliseconds, that neighbour is the better parent: as fast, over a link that costs less.
Neighbours must not choose each other in a circle, so only one that is ahead of us may be
chosen: it got the message in fewer hops, or in as many and has the smaller id.
"""

from __future__ import annotations

from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.plumtree.message_store import StoredMessage
from episub_router.protocol.rtt import Rtt, updated
from episub_router.protocol.types import NEVER, PeerId, Time


class ParentSelection:
    """RTTs of the neighbours of node `me`, and how late their copies are."""

    __slots__ = ("_late_since", "_me", "_params", "_prune_expected", "_rtts")

    def __init__(self, me: PeerId, params: BroadcastParams) -> None:
        self._me = me
        self._params = params
        self._rtts: dict[PeerId, Rtt | None] = {}
        self._late_since: dict[PeerId, Time] = {}
        """Since when all copies of a neighbour were late."""
        self._prune_expected: dict[PeerId, Time] = {}
        """Until when a PRUNE from a neighbour that we chose counts as sent before our GRAFT."""

    def add_neighbor(self, peer: PeerId, rtt: float | None) -> None:
        """A new neighbour, `rtt` seconds away; None if that is unknown."""
        self._rtts[peer] = None if rtt is None else Rtt(rtt)

    def remove_neighbor(self, peer: PeerId) -> None:
        self._rtts.pop(peer, None)
        self._late_since.pop(peer, None)
        self._prune_expected.pop(peer, None)

    def clear(self) -> None:
        self._rtts.clear()
        self._late_since.clear()
        self._prune_expected.clear()

    def update_rtt(self, peer: PeerId, rtt: float | None) -> None:
        """A round trip to `peer` took `rtt` seconds; None, a failed ping, makes it unknown."""
        if peer in self._rtts:
            self._rtts[peer] = None if rtt is None else updated(self._rtts[peer], rtt)

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
        return now - since <= params.missing_ticks_lost * params.missing_tick

    def prefers(self, peer: PeerId, hops: int, arrived_at: Time, first: StoredMessage) -> bool:
        """Whether `peer`, whose copy of `first` has arrived, is a better parent than the first
        copy's sender."""
        params = self._params
        near, far = self._rtts.get(peer), self._rtts.get(first.parent)
        return (
            near is not None
            and far is not None
            and near.mean * params.near_parent_advantage <= far.mean
            and 0 < params.near_parent_window >= arrived_at - first.arrived_at
            # At the largest hop count, hops no longer show which peer is ahead.
            and 1 <= hops < params.max_hops
            and (hops - 1, peer) < (first.hops, self._me)
        )

    def expect_crossing_prune(self, peer: PeerId, pushed_at: Time) -> None:
        """`peer` gets a GRAFT for its nearness. We pushed it our copy at `pushed_at`, so its PRUNE
        crosses the GRAFT."""
        rtt = self._rtts[peer]
        if rtt is not None:
            self._prune_expected[peer] = pushed_at + 1.25 * rtt.mean

    def is_crossing_prune(self, peer: PeerId, now: Time) -> bool:
        """Whether a PRUNE from `peer` is the one that crossed our GRAFT; counts once."""
        return now <= self._prune_expected.pop(peer, -NEVER)
