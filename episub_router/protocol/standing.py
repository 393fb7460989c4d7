"""Standing: what each peer has earned, a number that deeds change and time forgets.

gossipsub v1.1's peer scores P2 (first deliveries), P4 (invalid messages), P5 (the application's
word) and P7 (broken promises), without P3: a peer on a slow link loses nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from episub_router.protocol.types import PeerId, Time
from episub_router.util.bounded import put_last

FIRST_COPY = 1.0  # Earned by the first copy of a message that proves valid. gossipsub: P2, weight 1
KEPT_PROMISE = 1.0  # Earned by an answer to a GRAFT. Chosen: as a first copy, which it mostly is
BROKEN_PROMISE = -4.0
"""Chosen: a peer that keeps two of three stands as it stood; 5 % of frames may be lost each way."""
FORGED_PAYLOAD = -10.0  # Or preamble. Chosen: no correct peer forwards one. gossipsub: P4
BAD_PIECE = -60.0  # Chosen: a ban at once, as each node checks a piece before it passes it on
MOST = 10.0  # So that nobody saves up for an attack. gossipsub: P2's cap
LEAST = -60.0  # Chosen: beyond BAN_BELOW it only takes longer to be forgiven
HALF_LIFE = 120.0  # Seconds in which a standing loses half. Chosen: some of a hundred deeds count
BAD_BELOW = -10.0  # Asked last, and no parent. Chosen: three promises broken, none kept
BAN_BELOW = -40.0  # Chosen: eleven promises broken and none kept, or five forgeries
BAN_TIME = 600.0  # Seconds. Chosen: ten times gossipsub's back-off after a PRUNE
MAX_STANDINGS = 512  # Peers remembered, neighbours or not. Chosen: many active views


class Standings:
    """Bounded in peers: the one whose deeds are the oldest is forgotten first. What the application
    set is apart from that, and stays."""

    __slots__ = ("_earned", "_set", "_worst")

    def __init__(self) -> None:
        self._earned: dict[PeerId, tuple[float, Time]] = {}  # As it was at the last deed, and when
        self._set: dict[PeerId, float] = {}
        self._worst = 0.0  # What a peer may have stood at, at the least

    def of(self, peer: PeerId, now: Time) -> float:
        """The standing of `peer`: what it earned, and what the application set."""
        return self._earned_by(peer, now) + self._set.get(peer, 0.0)

    def _earned_by(self, peer: PeerId, now: Time) -> float:
        earned, at = self._earned.get(peer, (0.0, now))
        return float(earned * 0.5 ** ((now - at) / HALF_LIFE))

    def add(self, peer: PeerId, earned: float, now: Time) -> None:
        total = self._earned_by(peer, now) + earned
        self._worst = min(self._worst, total + self._set.get(peer, 0.0))
        put_last(self._earned, peer, (max(LEAST, min(MOST, total)), now), MAX_STANDINGS)

    def set(self, peer: PeerId, standing: float) -> None:
        """The application's word on `peer`, added to what it earns; 0 takes it back."""
        if standing:
            self._set[peer] = standing
            self._worst = min(self._worst, standing + LEAST)
        else:
            self._set.pop(peer, None)

    def is_bad(self, peer: PeerId, now: Time) -> bool:
        """Whether `peer` is asked last, and is no candidate for parent."""
        return self._may_be_bad(peer) and self.of(peer, now) < BAD_BELOW

    def is_condemned(self, peer: PeerId, now: Time) -> bool:
        return self._may_be_bad(peer) and self.of(peer, now) < BAN_BELOW

    def condemned(self, peers: Iterable[PeerId], now: Time) -> list[PeerId]:
        """Those of `peers` that are to be banned."""
        if self._worst >= BAN_BELOW:
            return []
        return [peer for peer in peers if self.is_condemned(peer, now)]

    def _may_be_bad(self, peer: PeerId) -> bool:
        earned = self._earned.get(peer)
        return (earned is not None and earned[0] < 0) or peer in self._set

    def forgive(self, peer: PeerId) -> None:
        """Forget what `peer` did: its ban is over, or was not wanted."""
        self._earned.pop(peer, None)

    def all(self, now: Time) -> Mapping[PeerId, float]:
        """Every standing that isn't 0, as a read-only view."""
        return {peer: self.of(peer, now) for peer in dict.fromkeys((*self._earned, *self._set))}
