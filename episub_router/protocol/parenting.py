"""Which of two neighbours that both push to us should stay our parent (E31).

The first copy makes the tree. Where a much nearer neighbour's copy comes right after it, that one
is the better parent: as soon, to a few milliseconds, and over a link that costs less, inside a
site in place of between two.

Two neighbours must not choose each other, nor several in a circle. So only a neighbour that is
ahead of us may be chosen: one that got the message in fewer hops, or in as many and has the
smaller id.
"""

from __future__ import annotations

from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.rtt import Rtt, updated
from episub_router.protocol.store import Stored
from episub_router.protocol.types import NEVER, PeerId, Time


class Parenting:
    """How far the neighbours of node `me` are, and what follows for its parent."""

    __slots__ = ("_late", "_me", "_params", "_prune_expected", "_rtts")

    def __init__(self, me: PeerId, params: BroadcastParams) -> None:
        self._me = me
        self._params = params
        self._rtts: dict[PeerId, Rtt | None] = {}
        self._late: dict[PeerId, Time] = {}
        """Since when all copies of a neighbour were late."""
        self._prune_expected: dict[PeerId, Time] = {}
        """Until when a PRUNE of a neighbour that was chosen may still come."""

    def up(self, peer: PeerId, rtt: float | None) -> None:
        """A new neighbour, `rtt` seconds away if that is known."""
        self._rtts[peer] = None if rtt is None else Rtt(rtt)

    def down(self, peer: PeerId) -> None:
        self._rtts.pop(peer, None)
        self._late.pop(peer, None)
        self._prune_expected.pop(peer, None)

    def clear(self) -> None:
        self._rtts.clear()
        self._late.clear()
        self._prune_expected.clear()

    def measured(self, peer: PeerId, rtt: float | None) -> None:
        """A round trip to `peer` took `rtt` seconds, or wasn't answered: then nobody knows."""
        if peer in self._rtts:
            self._rtts[peer] = None if rtt is None else updated(self._rtts[peer], rtt)

    def in_time(self, peer: PeerId) -> None:
        """`peer` was the first to bring a message."""
        self._late.pop(peer, None)

    def spares(self, peer: PeerId, after: Time, now: Time) -> bool:
        """Whether `peer` may push though its copy came `after` seconds later than ours.

        Who had to ask others for a message pushes it late: that says nothing about the way of the
        next. Who stays late for as long as a message may be missing has been pruned in time by
        nobody, and is.
        """
        params = self._params
        if after < params.soonest_repair:
            self._late.pop(peer, None)
            return False
        since = self._late.setdefault(peer, now)
        return now - since <= params.missing_ticks_lost * params.missing_tick

    def replaces(self, peer: PeerId, hops: int, came: Time, ours: Stored) -> bool:
        """Whether `peer`, whose copy of `ours` has come, is a better parent than the first."""
        params = self._params
        near, far = self._rtts.get(peer), self._rtts.get(ours.parent)
        return (
            near is not None
            and far is not None
            and near.mean * params.near_parent_advantage <= far.mean
            and 0 < params.near_parent_window >= came - ours.came
            # Where hop counts end, they don't tell who is ahead.
            and 1 <= hops < params.max_hops
            and (hops - 1, peer) < (ours.hops, self._me)
        )

    def chose(self, peer: PeerId, pushed: Time) -> None:
        """`peer` is GRAFTed for its nearness. It was `pushed` our copy before, so its PRUNE crosses
        the GRAFT."""
        rtt = self._rtts[peer]
        if rtt is not None:
            self._prune_expected[peer] = pushed + 1.25 * rtt.mean

    def crossed(self, peer: PeerId, now: Time) -> bool:
        """Whether a PRUNE from `peer` is the one that crossed our GRAFT."""
        return now <= self._prune_expected.pop(peer, -NEVER)
