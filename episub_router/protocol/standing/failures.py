"""Which neighbours did not do what they were asked to in one tree: push, or announce at once.

Apart from standings, since it proves nothing: a neighbour may lack the messages itself. But
whatever the reason, it is of no use in this tree.
"""

from __future__ import annotations

from collections.abc import Collection, Container

from episub_router.protocol.types import NEVER, PeerId, Time

_FAILED_FOR = 120.0
"""Seconds for which a neighbour that failed in a tree is no parent and no standby there; twice as
long each time. Ours: twice go-libp2p-pubsub's back-off after a PRUNE; measured, 60 s let censors
come back within the minute."""

_MOST_FAILED_FOR = 960.0

FAILED_AFTER = 6
"""Messages in a row that a parent didn't push. Ours: 0.1 % of honest ones where 30 % of all frames
are lost; fewer, and a node could come to trust no neighbour that has a way to the source."""

_SILENT_FOR = 3.0
"""Seconds, and ..."""
_SILENT_MESSAGES = 6
"""... messages without a word from a standby, which announces each at once. Ours: beyond
LAZY_DELAY, after which others have announced it."""


class Failures:
    """Of neighbours only, so that it is bounded as they are."""

    __slots__ = ("_counts", "_missed", "_silent", "_until")

    def __init__(self) -> None:
        self._until: dict[PeerId, Time] = {}
        self._counts: dict[PeerId, int] = {}
        self._silent: dict[PeerId, tuple[Time, int]] = {}
        """Standbys that announced none of the last messages: since when, and how many."""
        self._missed: dict[PeerId, int] = {}
        """Messages in a row that a parent did not push."""

    def count_miss(self, parent: PeerId) -> bool:
        """`parent` did not push a message; returns whether it has failed."""
        missed = self._missed[parent] = self._missed.get(parent, 0) + 1
        return missed >= FAILED_AFTER

    def note_push(self, peer: PeerId) -> None:
        """`peer` pushed a message without being asked."""
        self._missed.pop(peer, None)

    def note(self, peer: PeerId, now: Time) -> None:
        """`peer` failed."""
        count = self._counts[peer] = self._counts.get(peer, 0) + 1
        self._until[peer] = now + min(_MOST_FAILED_FOR, _FAILED_FOR * 2 ** (count - 1))
        self._silent.pop(peer, None)
        self._missed.pop(peer, None)

    def __contains__(self, peer: PeerId) -> bool:
        """Whether `peer` ever failed."""
        return peer in self._counts

    def excludes(self, peer: PeerId, now: Time) -> bool:
        """Whether `peer` is no candidate at `now`."""
        return now < self._until.get(peer, -NEVER)

    def note_announcement(self, peer: PeerId) -> None:
        """`peer` has announced a message of this tree: it gets them again. After its first failure
        that is enough, as where nodes come and go; one that only announces fails again."""
        self._silent.pop(peer, None)
        if self._counts.get(peer) == 1:
            self._until.pop(peer, None)

    def silent(
        self, standbys: Collection[PeerId], announcers: Container[PeerId], now: Time
    ) -> list[PeerId]:
        """A message came, which `announcers` had announced: those of `standbys` that announced
        neither it nor the last ones before."""
        found = []
        for peer in standbys:
            if peer in announcers:
                self._silent.pop(peer, None)
                continue
            since, count = self._silent.get(peer, (now, 0))
            if count >= _SILENT_MESSAGES and now - since >= _SILENT_FOR:
                found.append(peer)
            else:
                self._silent[peer] = since, count + 1
        return found

    def forget(self, peer: PeerId) -> None:
        """`peer` isn't a neighbour any more."""
        for notes in (self._until, self._counts, self._silent, self._missed):
            notes.pop(peer, None)
