"""Which neighbours have been greeted as one that takes pieces, and which have done the same."""

from __future__ import annotations

from episub_router.protocol.types import NEVER, PeerId, Time

_AGAIN = 5.0
"""Seconds until a neighbour that has not answered is greeted again; twice as long each time."""

_TRIES = 4
"""Greetings after the first; a neighbour that answers none of them takes no pieces."""


class Greetings:
    """A greeting or its answer can be lost where two connections of a neighbour replace each other.

    Bound: the neighbours.
    """

    __slots__ = ("_due", "_last", "_since")

    def __init__(self) -> None:
        self._last: dict[PeerId, Time] = {}
        self._since: dict[PeerId, Time] = {}
        self._due: dict[PeerId, tuple[Time, int]] = {}

    def greeted(self, peer: PeerId, now: Time, *, waiting: bool) -> None:
        """`peer` is a new neighbour, or may have lost what it was sent, and was greeted."""
        self._last[peer] = now
        if waiting:
            self._since.setdefault(peer, now)
            self._due[peer] = now + _AGAIN, 0

    def answered(self, peer: PeerId, now: Time) -> Time:
        """`peer` takes pieces; returns since when it has been our neighbour without saying so."""
        self._due.pop(peer, None)
        return self._since.pop(peer, now)

    def may_answer(self, peer: PeerId, now: Time) -> bool:
        """Whether the greeting of a `peer` that has greeted us before is answered: two that answer
        each other must come to an end."""
        return now - self._last.get(peer, -NEVER) >= _AGAIN / 2

    def forget(self, peer: PeerId) -> None:
        """`peer` is no neighbour any more."""
        for of in (self._last, self._since, self._due):
            of.pop(peer, None)

    def clear(self) -> None:
        """We left the topic."""
        for of in (self._last, self._since, self._due):
            of.clear()

    @property
    def deadline(self) -> Time:
        """When `due` has something; infinity while no answer is waited for."""
        return min((at for at, _ in self._due.values()), default=NEVER)

    def due(self, now: Time) -> list[PeerId]:
        """The neighbours to greet again."""
        peers = [peer for peer, (at, _) in self._due.items() if at <= now]
        for peer in peers:
            tries = self._due.pop(peer)[1] + 1
            self._last[peer] = now
            if tries < _TRIES:
                self._due[peer] = now + _AGAIN * 2**tries, tries
        return peers
