"""The eager and lazy sets of one broadcast tree.

An object of its own, so that a source can be given a tree of its own: the machine around it
says what happens, this says along which links.
"""

from __future__ import annotations

from collections.abc import Collection

from episub_router.protocol.types import PeerId


class Tree:
    """Every neighbour is in exactly one of the two sets."""

    __slots__ = ("_eager", "_lazy", "_parents")

    def __init__(self) -> None:
        self._eager: dict[PeerId, None] = {}
        self._lazy: dict[PeerId, None] = {}
        self._parents: dict[PeerId, None] = {}

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self._lazy or peer in self._eager

    @property
    def eager(self) -> Collection[PeerId]:
        """Peers that messages are pushed to."""
        return self._eager

    @property
    def lazy(self) -> Collection[PeerId]:
        """Peers that are told of messages."""
        return self._lazy

    @property
    def parents(self) -> Collection[PeerId]:
        """Eager peers that were the first to bring a message, since they became eager."""
        return self._parents

    def is_eager(self, peer: PeerId) -> bool:
        return peer in self._eager

    def is_lazy(self, peer: PeerId) -> bool:
        return peer in self._lazy

    def add(self, peer: PeerId) -> None:
        """A new neighbour starts eager (E39)."""
        if peer not in self._lazy:
            self._eager[peer] = None

    def brought(self, peer: PeerId) -> None:
        """`peer` was the first to bring a message."""
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

    def promote(self, peer: PeerId) -> bool:
        """From lazy to eager; False if `peer` wasn't lazy."""
        if peer not in self._lazy:
            return False
        del self._lazy[peer]
        self._eager[peer] = None
        return True

    def demote(self, peer: PeerId) -> bool:
        """From eager to lazy; False if `peer` wasn't eager."""
        if peer not in self._eager:
            return False
        del self._eager[peer]
        self._parents.pop(peer, None)
        self._lazy[peer] = None
        return True
