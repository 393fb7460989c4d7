"""The standing of each peer: a number that deeds change and time forgets."""

from __future__ import annotations

from collections.abc import Mapping

from episub_router.protocol.standing import rules
from episub_router.protocol.types import PeerId, Time

MAX_STANDINGS = 512
"""Peers whose standing is remembered, neighbours or not. Ours: many active views."""


class Standings:
    """Bounded in peers: the one whose deeds are the oldest is forgotten first. What the application
    set is apart from that, and stays."""

    __slots__ = ("_earned", "_set")

    def __init__(self) -> None:
        self._earned: dict[PeerId, tuple[float, Time]] = {}
        """The sum of deeds as it was at the last of them, and when that was."""
        self._set: dict[PeerId, float] = {}

    def of(self, peer: PeerId, now: Time) -> float:
        """The standing of `peer`: what it earned, and what the application set."""
        return self._earned_by(peer, now) + self._set.get(peer, 0.0)

    def _earned_by(self, peer: PeerId, now: Time) -> float:
        earned, at = self._earned.get(peer, (0.0, now))
        return float(earned * 0.5 ** ((now - at) / rules.HALF_LIFE))

    def add(self, peer: PeerId, earned: float, now: Time) -> None:
        """`peer` did something that earns, or costs."""
        total = self._earned_by(peer, now) + earned
        self._earned.pop(peer, None)
        self._earned[peer] = max(rules.LEAST, min(rules.MOST, total)), now
        if len(self._earned) > MAX_STANDINGS:
            del self._earned[next(iter(self._earned))]

    def set(self, peer: PeerId, standing: float) -> None:
        """The application's word on `peer`, added to what it earns; 0 takes it back."""
        if standing:
            self._set[peer] = standing
        else:
            self._set.pop(peer, None)

    def is_bad(self, peer: PeerId, now: Time) -> bool:
        """Whether `peer` is asked last, and is no candidate for parent."""
        return self._may_be_bad(peer) and self.of(peer, now) < rules.BAD_BELOW

    def is_condemned(self, peer: PeerId, now: Time) -> bool:
        """Whether `peer` is to be banned."""
        return self._may_be_bad(peer) and self.of(peer, now) < rules.BAN_BELOW

    def _may_be_bad(self, peer: PeerId) -> bool:
        earned = self._earned.get(peer)
        return (earned is not None and earned[0] < 0) or peer in self._set

    def forgive(self, peer: PeerId) -> None:
        """Forget what `peer` did: its ban is over, or was not wanted."""
        self._earned.pop(peer, None)

    def all(self, now: Time) -> Mapping[PeerId, float]:
        """Every standing that isn't 0, to look at."""
        return {peer: self.of(peer, now) for peer in dict.fromkeys((*self._earned, *self._set))}
