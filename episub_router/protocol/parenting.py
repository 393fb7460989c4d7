"""Which of two neighbours that both push to us should stay our parent (E31).

The first copy makes the tree. Where a much nearer neighbour's copy comes right after it, that one
is the better parent: as soon, to a few milliseconds, and over a link that costs less, inside a
site in place of between two.

Two neighbours must not choose each other, nor several in a circle. So only a neighbour that is
ahead of us may be chosen: one that got the message in fewer hops, or in as many and has the
smaller id. Of two whose copies crossed, the one behind decides about the link.
"""

from __future__ import annotations

from typing import Any

from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.rtt import Rtt, updated
from episub_router.protocol.store import Stored
from episub_router.protocol.types import PeerId, Time


class Parenting:
    """How far the neighbours of node `me` are, and what follows for its parent."""

    __slots__ = ("_me", "_params", "_rtts")

    def __init__(self, me: PeerId, params: BroadcastParams) -> None:
        self._me = me
        self._params = params
        self._rtts: dict[PeerId, Rtt | None] = {}

    def up(self, peer: PeerId, rtt: float | None) -> None:
        """A new neighbour, `rtt` seconds away if that is known."""
        self._rtts[peer] = None if rtt is None else Rtt(rtt)

    def down(self, peer: PeerId) -> None:
        self._rtts.pop(peer, None)

    def clear(self) -> None:
        self._rtts.clear()

    def measured(self, peer: PeerId, rtt: float | None) -> None:
        """A round trip to `peer` took `rtt` seconds, or wasn't answered."""
        if rtt is not None and peer in self._rtts:
            self._rtts[peer] = updated(self._rtts[peer], rtt)

    def decides(self, peer: PeerId, hops: int, ours: Stored) -> bool:
        """Whether it is for `peer`, whose copy of `ours` crossed our own, to keep the link."""
        return self._params.near_parent_window > 0 and self._order(ours) < (hops - 1, peer)

    def replaces(self, peer: PeerId, hops: int, ours: Stored, now: Time) -> bool:
        """Whether `peer`, whose copy of `ours` has come now, is a better parent than the first."""
        params = self._params
        near, far = self._rtts.get(peer), self._rtts.get(ours.parent)
        return (
            near is not None
            and far is not None
            and near.mean * params.near_parent_advantage <= far.mean
            and 0 < params.near_parent_window >= now - ours.at
            and hops >= 1
            and (hops - 1, peer) < self._order(ours)
        )

    def _order(self, ours: Stored) -> tuple[int, Any]:
        return ours.hops, self._me
