"""What each peer may still ask of this node."""

from __future__ import annotations

from libp2p.peer.id import ID

MAX_PEERS = 1024
"""Peers whose budgets are remembered; ours: many times the connections of one host."""


class Budgets:
    """A budget for each peer that fills up again with time, and may be overdrawn.

    The `MAX_PEERS` that were charged last are remembered, connected or not: a peer gets nothing
    by coming back.
    """

    def __init__(self, per_second: float, most: float) -> None:
        self._per_second = per_second
        self._most = most
        self._left: dict[ID, tuple[float, float]] = {}
        """What was left at which time, the one charged longest ago first."""

    def left(self, peer: ID, now: float) -> float:
        """What `peer` has left; below 0 if it is in debt."""
        left, since = self._left.get(peer, (self._most, now))
        return min(self._most, left + (now - since) * self._per_second)

    def wait(self, peer: ID, now: float) -> float:
        """Seconds until `peer` is out of debt."""
        return max(0.0, -self.left(peer, now) / self._per_second)

    def charge(self, peer: ID, amount: float, now: float) -> None:
        """Take `amount` from `peer`, or give it back if it is negative."""
        left = min(self._most, self.left(peer, now) - amount)
        self._left.pop(peer, None)
        self._left[peer] = (left, now)
        if len(self._left) > MAX_PEERS:
            del self._left[next(iter(self._left))]

    def take(self, peer: ID, now: float) -> bool:
        """Take 1 from `peer`, if that is left."""
        if self.left(peer, now) < 1:
            return False
        self.charge(peer, 1, now)
        return True
