"""The neighbours, and which of them are eager and which lazy push peers in the default tree."""

from __future__ import annotations

from collections.abc import Collection

from episub_router.protocol.types import NEVER, PeerId, Time


class PushPeers:
    """Every neighbour is in exactly one of the two sets; all keep the order of insertion."""

    __slots__ = ("_default_only", "_eager", "_lazy", "_neighbors", "_parents")

    def __init__(self) -> None:
        self._neighbors: dict[PeerId, Time] = {}
        """Each, and since when trees of single sources may go over its link."""
        self._default_only: dict[PeerId, None] = {}
        self._eager: dict[PeerId, None] = {}
        self._lazy: dict[PeerId, None] = {}
        self._parents: dict[PeerId, None] = {}

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self._neighbors

    @property
    def neighbors(self) -> Collection[PeerId]:
        """All neighbours."""
        return self._neighbors

    @property
    def in_source_trees(self) -> Collection[PeerId]:
        """Neighbours that take part in trees of single sources."""
        if not self._default_only:
            return self._neighbors
        return [peer for peer in self._neighbors if peer not in self._default_only]

    @property
    def default_only(self) -> Collection[PeerId]:
        """Neighbours that know the default tree alone: all messages go along it there."""
        return self._default_only

    @property
    def eager(self) -> Collection[PeerId]:
        """Peers that payloads are pushed to."""
        return self._eager

    @property
    def lazy(self) -> Collection[PeerId]:
        """Peers that ids are announced to."""
        return self._lazy

    @property
    def parents(self) -> Collection[PeerId]:
        """Eager peers that were the first to push a message, since they became eager."""
        return self._parents

    def is_eager(self, peer: PeerId) -> bool:
        return peer in self._eager

    def is_lazy(self, peer: PeerId) -> bool:
        return peer in self._lazy

    def up_since(self, peer: PeerId) -> Time:
        """Since when the link to `peer` stands; before all times where there is none."""
        return self._neighbors.get(peer, -NEVER)

    def note_up(self, peer: PeerId, now: Time) -> None:
        """The link to the neighbour `peer` is new to trees of single sources."""
        self._neighbors[peer] = now

    def add(self, peer: PeerId, *, source_trees: bool) -> None:
        """A new neighbour starts eager (E39)."""
        if peer not in self._lazy:
            self._eager[peer] = None
        self._neighbors[peer] = -NEVER
        if not source_trees:
            self._default_only[peer] = None

    def join_source_trees(self, peer: PeerId) -> bool:
        """The neighbour `peer` takes part in trees of single sources after all; False if that was
        known."""
        if peer not in self._default_only:
            return False
        del self._default_only[peer]
        return True

    def note_parent(self, peer: PeerId) -> None:
        """`peer` was the first to push a message."""
        if peer in self._eager:
            self._parents[peer] = None

    def remove(self, peer: PeerId) -> bool:
        """Forget `peer`; True if it was eager."""
        was_eager = peer in self._eager
        self._neighbors.pop(peer, None)
        for peers in self._kinds():
            peers.pop(peer, None)
        return was_eager

    def clear(self) -> None:
        self._neighbors.clear()
        for peers in self._kinds():
            peers.clear()

    def _kinds(self) -> tuple[dict[PeerId, None], ...]:
        return self._default_only, self._eager, self._lazy, self._parents

    def make_eager(self, peer: PeerId) -> bool:
        """Move `peer` from lazy to eager; False if it wasn't lazy."""
        if peer not in self._lazy:
            return False
        del self._lazy[peer]
        self._eager[peer] = None
        return True

    def make_lazy(self, peer: PeerId) -> bool:
        """Move `peer` from eager to lazy; False if it wasn't eager."""
        if peer not in self._eager:
            return False
        del self._eager[peer]
        self._parents.pop(peer, None)
        self._lazy[peer] = None
        return True
