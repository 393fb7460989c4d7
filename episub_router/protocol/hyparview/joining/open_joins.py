"""Open JOINs: each brings one link at most, however many nodes answer it (E06)."""

from __future__ import annotations

from random import Random

from episub_router.protocol.tables import take
from episub_router.protocol.types import Time

JOIN_LIFETIME = 30.0
"""Seconds in which a JOIN can be answered. Ours: a walk of six hops with a dial, several times."""

MAX_OPEN = 32
"""JOINs remembered. Ours: what one join procedure sends."""


class OpenJoins:
    """Our JOINs that no ACCEPT has answered yet, by nonce, oldest first."""

    __slots__ = ("_sent",)

    def __init__(self) -> None:
        self._sent: dict[int, Time] = {}

    def __len__(self) -> int:
        return len(self._sent)

    def open(self, rng: Random, now: Time) -> int:
        """The nonce of a JOIN that is being sent."""
        nonce = rng.getrandbits(32) or 1
        self._sent.pop(nonce, None)
        self._sent[nonce] = now
        if len(self._sent) > MAX_OPEN:
            del self._sent[next(iter(self._sent))]
        return nonce

    def take(self, nonce: int, now: Time) -> bool:
        """Whether an ACCEPT with this nonce answers an open JOIN, which it uses up. One without
        a nonce, from a peer that knows none, uses up the oldest."""
        self._sent = {n: at for n, at in self._sent.items() if now - at < JOIN_LIFETIME}
        if not nonce and self._sent:
            nonce = next(iter(self._sent))
        return take(self._sent, nonce) is not None

    def clear(self) -> None:
        self._sent.clear()
