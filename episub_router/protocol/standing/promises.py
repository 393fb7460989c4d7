"""Promises: an announced message that a neighbour was asked for, until it comes from there."""

from __future__ import annotations

from episub_router.protocol.standing.rules import BROKEN_AT_ONCE, LONGEST_BACKLOG, SILENCE
from episub_router.protocol.types import NEVER, MessageId, PeerId, Time

MAX_PROMISES = 256
"""Promises remembered of one peer: many messages' worth of evidence. Ours."""


class _Peer:
    """The promises of one neighbour, in the order in which it was asked."""

    __slots__ = ("asked_at", "broke", "charged_at", "payload_at")

    def __init__(self) -> None:
        self.asked_at: dict[MessageId, Time] = {}
        self.payload_at: Time = -NEVER
        """When it last sent a payload, whichever."""
        self.charged_at: list[Time] = []
        """When broken promises cost it something last, `BROKEN_AT_ONCE` times at most."""
        self.broke = False
        """Whether it broke one, and has sent no payload since."""


class Promises:
    """Which neighbour was asked for what, and when. Bounded by neighbours and `MAX_PROMISES`."""

    __slots__ = ("_by_peer",)

    def __init__(self) -> None:
        self._by_peer: dict[PeerId, _Peer] = {}

    def ask(self, peer: PeerId, id: MessageId, now: Time) -> None:
        """`peer` has announced `id`, and gets a GRAFT for it."""
        promises = self._by_peer.get(peer)
        if promises is None:
            promises = self._by_peer[peer] = _Peer()
        asked_at = promises.asked_at
        if len(asked_at) < MAX_PROMISES:
            asked_at.setdefault(id, now)

    def renew(self, peer: PeerId, id: MessageId, now: Time) -> None:
        """`peer` announced `id` again: it had no room to send it."""
        promises = self._by_peer.get(peer)
        if promises is not None and promises.asked_at.pop(id, None) is not None:
            promises.asked_at[id] = now

    def keep(self, peer: PeerId, id: MessageId, now: Time) -> bool:
        """A copy of `id` came from `peer`; whether it had been asked for."""
        promises = self._by_peer.get(peer)
        if promises is None:
            return False
        promises.payload_at = now
        promises.broke = False
        return promises.asked_at.pop(id, None) is not None

    def is_late(self, peer: PeerId, now: Time, patience: float) -> bool:
        """Whether `peer` owes something for longer than `patience` seconds, or broke a promise and
        has sent no payload since: a liar would be believed again each time one is given up."""
        promises = self._by_peer.get(peer)
        if promises is None:
            return False
        if promises.broke or not promises.asked_at:
            return promises.broke
        return now - next(iter(promises.asked_at.values())) > patience

    def broken(self, now: Time) -> list[PeerId]:
        """Take out what counts as broken: the peers, each as often as that is to cost it
        something, BROKEN_AT_ONCE times within SILENCE at most."""
        found = []
        for peer, promises in self._by_peer.items():
            asked_at = promises.asked_at
            while asked_at:
                id, since = next(iter(asked_at.items()))
                silent_since = max(since, promises.payload_at)
                if now - silent_since <= SILENCE and now - since <= LONGEST_BACKLOG:
                    break
                del asked_at[id]
                promises.broke = True
                charged_at = promises.charged_at
                if len(charged_at) < BROKEN_AT_ONCE or now - charged_at[0] >= SILENCE:
                    charged_at.append(now)
                    del charged_at[:-BROKEN_AT_ONCE]
                    found.append(peer)
        return found

    def forget(self, peer: PeerId) -> None:
        """`peer` isn't a neighbour any more, and owes nothing."""
        self._by_peer.pop(peer, None)

    def clear(self) -> None:
        self._by_peer.clear()
