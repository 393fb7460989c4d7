"""The eager push peers and the lazy push peers of one broadcast tree."""

from __future__ import annotations

from collections.abc import Collection

from episub_router.protocol.types import PeerId


class PushPeers:
    """Every neighbour is in exactly one of the two sets; both keep the order of insertion.

    An object of its own, so that a source can be given a tree of its own.
    """

    __slots__ = ("_eager", "_lazy", "_parents")

    def __init__(self) -> None:
        self._eager: dict[PeerId, None] = {}
        self._lazy: dict[PeerId, None] = {}
        self._parents: dict[PeerId, None] = {}

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self._lazy or peer in self._eager

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

    def add(self, peer: PeerId) -> None:
        """A new neighbour starts eager (E39)."""
        if peer not in self._lazy:
            self._eager[peer] = None

    def note_parent(self, peer: PeerId) -> None:
        """`peer` was the first to push a message."""
        if peer in self._eager:
            self._parents[peer] = None

    def remove(self, peer: PeerId) -> bool:
        """Forget `peer`; True if it was eager."""
        was_eager = peer in self._eager
        self._eager.pop(peer, None)
        self._lazy.pop(peer, None)
        self._parents.pop(peer, None)
        return was_eager

    def clear(self) -> None:
        self._eager.clear()
        self._lazy.clear()
        self._parents.clear()

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
