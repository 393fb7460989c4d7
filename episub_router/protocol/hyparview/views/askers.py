"""Askers: peers that asked this node for nodes themselves, so that they exist.

Nodes that join through the same contacts find each other with them, in whatever order they come.
"""

from __future__ import annotations

from collections.abc import Iterator

from episub_router.protocol.types import Group, GroupOf, PeerId, Time

LIFETIME = 3600.0
"""Seconds for which an asker is named. Ours: at rest a node asks a contact each twenty minutes."""

MAX_ASKERS = 1024
"""Ours: some 100 KB, of contacts alone."""

_SHARE = 0.25
"""Of a full list, for one address prefix. Ours: as of the passive view."""


class Askers:
    """Peers that asked, the oldest first; the oldest of a group that has its share goes first."""

    __slots__ = ("_asked_at", "_group_of", "_in_group")

    def __init__(self, group_of: GroupOf) -> None:
        self._group_of = group_of
        self._asked_at: dict[PeerId, tuple[Time, Group | None]] = {}
        self._in_group: dict[Group, int] = {}

    def __len__(self) -> int:
        return len(self._asked_at)

    def __iter__(self) -> Iterator[PeerId]:
        return iter(self._asked_at)

    def add(self, peer: PeerId, now: Time) -> None:
        """`peer` has asked."""
        self.remove(peer)
        while self._asked_at:
            oldest = next(iter(self._asked_at))
            if now - self._asked_at[oldest][0] < LIFETIME:
                break
            self.remove(oldest)
        group = self._group_of(peer)
        if len(self._asked_at) >= MAX_ASKERS:
            self.remove(self._victim(group))
        self._asked_at[peer] = now, group
        if group is not None:
            self._in_group[group] = self._in_group.get(group, 0) + 1

    def _victim(self, group: Group | None) -> PeerId:
        if group is not None and self._in_group.get(group, 0) >= _SHARE * MAX_ASKERS:
            return next(peer for peer, (_, of) in self._asked_at.items() if of == group)
        return next(iter(self._asked_at))

    def remove(self, peer: PeerId) -> None:
        """Name `peer` no more."""
        _, group = self._asked_at.pop(peer, (0.0, None))
        if group is not None:
            self._in_group[group] -= 1
            if not self._in_group[group]:
                del self._in_group[group]

    def clear(self) -> None:
        self._asked_at.clear()
        self._in_group.clear()
