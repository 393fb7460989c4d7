"""The Episub neighbours of each joined topic, in the form that py-libp2p's tools expect."""

from __future__ import annotations

import trio
from libp2p.peer.id import ID


class Mesh:
    """`neighbors` maps each joined topic to its active view; `wait` waits for a neighbour."""

    def __init__(self) -> None:
        self.neighbors: dict[str, set[ID]] = {}
        self._changed = trio.Event()
        self._waiting: dict[tuple[str, ID], trio.Event] = {}

    def everyone(self) -> set[ID]:
        """The neighbours of all topics."""
        return set[ID]().union(*self.neighbors.values())

    def join(self, topic: str) -> None:
        self.neighbors.setdefault(topic, set())

    def leave(self, topic: str) -> None:
        self.neighbors.pop(topic, None)

    def up(self, topic: str, peer: ID) -> None:
        self.neighbors.setdefault(topic, set()).add(peer)
        self.note_link(topic, peer)

    def note_link(self, topic: str, peer: ID) -> None:
        """`peer` became a neighbour in `topic`, perhaps one that isn't kept here."""
        event = self._waiting.pop((topic, peer), None)
        if event is not None:
            event.set()
        self._notify()

    def down(self, topic: str, peer: ID) -> None:
        self.neighbors.get(topic, set()).discard(peer)
        self._notify()

    async def changed(self) -> None:
        """Return once a neighbour has come or gone, in any topic."""
        await self._changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def wait(self, topic: str, peer: ID) -> None:
        """Return once `peer` is a neighbour in `topic`."""
        if peer in self.neighbors.get(topic, ()):
            return
        event = self._waiting.setdefault((topic, peer), trio.Event())
        try:
            await event.wait()
        finally:
            if not event.is_set() and event.statistics().tasks_waiting == 0:
                self._waiting.pop((topic, peer), None)


def union(one: dict[str, set[ID]], other: dict[str, set[ID]]) -> dict[str, set[ID]]:
    """Both, topic by topic."""
    return {
        topic: one.get(topic, set()) | other.get(topic, set())
        for topic in dict.fromkeys([*one, *other])
    }
