"""The passive view: peers believed to be in the overlay, and who said so (E01, E19).

Names are cheap to make up. So each entry remembers who told us of it, by group where the teller
has one, and the group that the peer itself is in. In a full view, a teller or a group that has
its share already can only replace its own entries, and where others need room, what is beyond a
share goes first. As long as there is room, shares don't matter.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from random import Random

from episub_router.protocol.hyparview.views.active import pick_some
from episub_router.protocol.rtt import Rtt, updated
from episub_router.protocol.types import Group, GroupOf, PeerId, ungrouped


class _Entry:
    __slots__ = ("group", "rtt", "teller", "unanswered")

    def __init__(self, rtt: Rtt | None, teller: Group | None, group: Group | None) -> None:
        self.rtt = rtt
        self.teller = teller
        self.group = group
        self.unanswered = 0


class PassiveView:
    """At most `size` peers, with their last RTT; `share` of them for each teller and group.

    It is insertion-ordered, so that a run depends on its seed alone.
    """

    __slots__ = ("_entries", "_group_of", "_in_group", "_share", "_told_by", "size")

    def __init__(self, size: int, share: float = 1.0, group_of: GroupOf = ungrouped) -> None:
        self.size = size
        self._share = share
        self._group_of = group_of
        self._entries: dict[PeerId, _Entry] = {}
        self._told_by: dict[Group, int] = {}
        self._in_group: dict[Group, int] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self._entries

    def __iter__(self) -> Iterator[PeerId]:
        return iter(self._entries)

    def rtt(self, peer: PeerId) -> Rtt | None:
        entry = self._entries.get(peer)
        return None if entry is None else entry.rtt

    def measured(self) -> Iterator[tuple[PeerId, Rtt]]:
        """The peers whose RTT is known."""
        return ((peer, entry.rtt) for peer, entry in self._entries.items() if entry.rtt is not None)

    def update_rtt(self, peer: PeerId, sample: float) -> None:
        """A round trip to `peer` took `sample` seconds."""
        entry = self._entries.get(peer)
        if entry is None:
            return
        entry.unanswered = 0
        entry.rtt = updated(entry.rtt, sample)

    def unanswered(self, peer: PeerId) -> int:
        """A measurement of `peer` failed: how many in a row."""
        entry = self._entries.get(peer)
        if entry is None:
            return 0
        entry.unanswered += 1
        return entry.unanswered

    def forget_rtt(self, peer: PeerId) -> None:
        entry = self._entries.get(peer)
        if entry is not None:
            entry.rtt = None

    def remove(self, peer: PeerId) -> bool:
        """Forget `peer`; True if it was there."""
        entry = self._entries.pop(peer, None)
        if entry is None:
            return False
        _count(self._told_by, entry.teller, -1)
        _count(self._in_group, entry.group, -1)
        return True

    def add(
        self, peer: PeerId, rng: Random, rtt: Rtt | None = None, teller: PeerId | None = None
    ) -> bool:
        """Remember `peer`, of which `teller` told us (None: we know it ourselves). A full view
        forgets another peer for it; False if the shares leave none to forget."""
        return peer in self._entries or self._take(peer, rng, rtt, self._label(teller), [], ())

    def exchange(
        self,
        incoming: Iterable[PeerId],
        given: Iterable[PeerId],
        rng: Random,
        teller: PeerId | None = None,
    ) -> bool:
        """Take in what `teller` sent; a full view forgets the `given` first, then others (E19).
        False if the shares kept some out."""
        new = [peer for peer in dict.fromkeys(incoming) if peer not in self._entries][: self.size]
        spares = [peer for peer in dict.fromkeys(given) if peer in self._entries]
        label = self._label(teller)
        taken = [self._take(peer, rng, None, label, spares, new) for peer in new]
        return all(taken)

    def resize(self, size: int, rng: Random) -> None:
        """A new bound; what is beyond it is forgotten at random."""
        self.size = size
        for peer in pick_some(rng, list(self._entries), len(self._entries) - size):
            self.remove(peer)

    def sample(self, rng: Random, size: int, *but: PeerId) -> list[PeerId]:
        """At most `size` random peers that aren't among `but`."""
        return pick_some(rng, [peer for peer in self._entries if peer not in but], size)

    def clear(self) -> None:
        self._entries.clear()
        self._told_by.clear()
        self._in_group.clear()

    def _label(self, teller: PeerId | None) -> Group | None:
        if teller is None:
            return None
        group = self._group_of(teller)
        return teller if group is None else group

    @property
    def _limit(self) -> int:
        return max(1, round(self._share * self.size))

    def _take(
        self,
        peer: PeerId,
        rng: Random,
        rtt: Rtt | None,
        teller: Group | None,
        spares: list[PeerId],
        kept: Collection[PeerId],
    ) -> bool:
        group = self._group_of(peer)
        if len(self._entries) >= self.size:
            victim = self._victim(rng, teller, group, spares, kept)
            if victim is None:
                return False
            self.remove(victim)
        self._entries[peer] = _Entry(rtt, teller, group)
        _count(self._told_by, teller, 1)
        _count(self._in_group, group, 1)
        return True

    def _victim(
        self,
        rng: Random,
        teller: Group | None,
        group: Group | None,
        spares: list[PeerId],
        kept: Collection[PeerId],
    ) -> PeerId | None:
        """Who goes for a peer of `group` told by `teller`, but for those `kept`: one of the same
        where their share is full, else the next of `spares`, else one beyond a share, else any."""
        limit = self._limit
        teller_full = teller is not None and self._told_by.get(teller, 0) >= limit
        group_full = group is not None and self._in_group.get(group, 0) >= limit
        if teller_full or group_full:
            choice = [
                peer
                for peer, entry in self._entries.items()
                if (not teller_full or entry.teller == teller)
                and (not group_full or entry.group == group)
                and peer not in kept
            ]
        elif spares:
            return spares.pop(0)
        else:
            choice = self._beyond_share(limit, kept) or [p for p in self._entries if p not in kept]
        return rng.choice(choice) if choice else None

    def _beyond_share(self, limit: int, kept: Collection[PeerId]) -> list[PeerId]:
        tellers = {label for label, count in self._told_by.items() if count > limit}
        groups = {label for label, count in self._in_group.items() if count > limit}
        if not tellers and not groups:
            return []
        return [
            peer
            for peer, entry in self._entries.items()
            if (entry.teller in tellers or entry.group in groups) and peer not in kept
        ]


def _count(counts: dict[Group, int], label: Group | None, change: int) -> None:
    if label is not None:
        count = counts.get(label, 0) + change
        if count:
            counts[label] = count
        else:
            del counts[label]
