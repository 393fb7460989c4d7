"""Which neighbours have been greeted as one that takes pieces, and which have done the same."""

from __future__ import annotations

from episub_router.protocol.types import NEVER, PeerId, Time

_AGAIN = 5.0
"""Seconds until a neighbour that has not answered is greeted again; twice as long each time."""

_TRIES = 4
"""Greetings after the first; a neighbour that answers none of them takes no pieces."""


class _Greeting:
    """What one neighbour was sent."""

    __slots__ = ("again", "last", "since", "tries")

    def __init__(self, now: Time) -> None:
        self.since = self.last = now
        """When the first one went out, and the last."""
        self.again: Time = NEVER
        """When the next does, while an answer is waited for."""
        self.tries = 0


class Greetings:
    """A greeting or its answer can be lost where two connections of a neighbour replace each other.

    Bound: the neighbours.
    """

    __slots__ = ("_by_peer",)

    def __init__(self) -> None:
        self._by_peer: dict[PeerId, _Greeting] = {}

    def greeted(self, peer: PeerId, now: Time, *, waiting: bool) -> None:
        """`peer` is a new neighbour, or may have lost what it was sent, and was greeted."""
        greeting = self._by_peer.setdefault(peer, _Greeting(now))
        greeting.last = now
        if waiting:
            greeting.again, greeting.tries = now + _AGAIN, 0

    def answered(self, peer: PeerId, now: Time) -> Time:
        """`peer` takes pieces; returns when it was first greeted."""
        greeting = self._by_peer.get(peer)
        if greeting is None:
            return now
        greeting.again = NEVER
        return greeting.since

    def may_answer(self, peer: PeerId, now: Time) -> bool:
        """Whether the greeting of a `peer` that has greeted us before is answered: two that answer
        each other must come to an end."""
        greeting = self._by_peer.get(peer)
        return greeting is None or now - greeting.last >= _AGAIN / 2

    def forget(self, peer: PeerId) -> None:
        """`peer` is no neighbour any more."""
        self._by_peer.pop(peer, None)

    def clear(self) -> None:
        """We left the topic."""
        self._by_peer.clear()

    @property
    def deadline(self) -> Time:
        """When `due` has something; infinity while no answer is waited for."""
        return min((greeting.again for greeting in self._by_peer.values()), default=NEVER)

    def due(self, now: Time) -> list[PeerId]:
        """The neighbours to greet again."""
        due = [
            (peer, greeting) for peer, greeting in self._by_peer.items() if greeting.again <= now
        ]
        for _, greeting in due:
            greeting.tries += 1
            more = greeting.tries < _TRIES
            greeting.last, greeting.again = now, now + _AGAIN * 2**greeting.tries if more else NEVER
        return [peer for peer, _ in due]
