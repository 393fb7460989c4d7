"""The passive view: peers believed to be in the overlay, and the peers that named them (E01, E19).

Peer ids are cheap to make up. So in a full view, a source (the peer that named one) or a group that
has its share only replaces its own entries, and entries beyond a share go first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from random import Random

from episub_router.protocol.hyparview.active_view import pick_some
from episub_router.protocol.rtt import Rtt, updated
from episub_router.protocol.types import Group, GroupOf, PeerId, ungrouped


class PassiveView:
    """At most `size` peers, with their last RTT; `share` of them for each source and group. What
    most peers lack has a table of its own: it would be the largest part of a node."""

    __slots__ = (
        "_from_source", "_group_of", "_groups", "_in_group", "_rtts", "_share", "_sources",
        "size",
    )  # fmt: skip

    def __init__(self, size: int, share: float = 1.0, group_of: GroupOf = ungrouped) -> None:
        self.size = size
        self._share = share
        self._group_of = group_of
        self._sources: dict[PeerId, Group | None] = {}
        """Every peer, in the order added, and the group of the peer that named it."""
        self._groups: dict[PeerId, Group] = {}
        """The peers' own groups, as they were when added."""
        self._rtts: dict[PeerId, Rtt] = {}
        self._from_source: dict[Group, int] = {}
        self._in_group: dict[Group, int] = {}

    def __len__(self) -> int:
        return len(self._sources)

    def __contains__(self, peer: PeerId) -> bool:
        return peer in self._sources

    def __iter__(self) -> Iterator[PeerId]:
        return iter(self._sources)

    def rtt(self, peer: PeerId) -> Rtt | None:
        return self._rtts.get(peer)

    def measured(self) -> Iterator[tuple[PeerId, Rtt]]:
        """The peers whose RTT is known."""
        return ((peer, self._rtts[peer]) for peer in self._sources if peer in self._rtts)

    def update_rtt(self, peer: PeerId, sample: float | None) -> None:
        """A round trip took `sample` seconds; one that failed (None) makes the RTT unknown."""
        if sample is None:
            self._rtts.pop(peer, None)
        elif peer in self._sources:
            self._rtts[peer] = updated(self._rtts.get(peer), sample)

    def remove(self, peer: PeerId) -> bool:
        """Forget `peer`; True if it was there."""
        if peer not in self._sources:
            return False
        _count(self._from_source, self._sources.pop(peer), -1)
        _count(self._in_group, self._groups.pop(peer, None), -1)
        self._rtts.pop(peer, None)
        return True

    def add(
        self, peer: PeerId, rng: Random, rtt: Rtt | None = None, source: PeerId | None = None
    ) -> bool:
        """Remember `peer`, which `source` named (None: we know it ourselves), in place of another
        where full; False if the shares leave none to remove."""
        return peer in self._sources or self._take(peer, rng, rtt, self._label(source), [], ())

    def exchange(
        self, incoming: Iterable[PeerId], given: Iterable[PeerId], rng: Random,
        source: PeerId | None = None,
    ) -> bool:  # fmt: skip
        """Take in what `source` sent, in place of the `given` first where full (E19). False if the
        shares kept some out."""
        new = [peer for peer in dict.fromkeys(incoming) if peer not in self._sources][: self.size]
        spares = [peer for peer in dict.fromkeys(given) if peer in self._sources]
        label = self._label(source)
        taken = [self._take(peer, rng, None, label, spares, new) for peer in new]
        return all(taken)

    def sample(self, rng: Random, size: int, *but: PeerId) -> list[PeerId]:
        """At most `size` random peers that aren't among `but`."""
        return pick_some(rng, [peer for peer in self._sources if peer not in but], size)

    def clear(self) -> None:
        self._sources.clear()
        self._groups.clear()
        self._rtts.clear()
        self._from_source.clear()
        self._in_group.clear()

    def _label(self, source: PeerId | None) -> Group | None:
        if source is None:
            return None
        group = self._group_of(source)
        return source if group is None else group

    def _take(
        self, peer: PeerId, rng: Random, rtt: Rtt | None, source: Group | None,
        spares: list[PeerId], kept: Collection[PeerId],
    ) -> bool:  # fmt: skip
        group = self._group_of(peer)
        if len(self._sources) >= self.size:
            victim = self._victim(rng, source, group, spares, kept)
            if victim is None:
                return False
            self.remove(victim)
        self._sources[peer] = source
        if group is not None:
            self._groups[peer] = group
        if rtt is not None:
            self._rtts[peer] = rtt
        _count(self._from_source, source, 1)
        _count(self._in_group, group, 1)
        return True

    def _victim(
        self, rng: Random, source: Group | None, group: Group | None,
        spares: list[PeerId], kept: Collection[PeerId],
    ) -> PeerId | None:  # fmt: skip
        """The entry to remove, none of those `kept`: one of the same `source` or `group` where its
        share is full, else the next of `spares`, else one beyond a share, else any."""
        limit = max(1, round(self._share * self.size))
        source_full = source is not None and self._from_source.get(source, 0) >= limit
        group_full = group is not None and self._in_group.get(group, 0) >= limit
        if source_full or group_full:
            choice = [
                peer
                for peer, own_source in self._sources.items()
                if (not source_full or own_source == source)
                and (not group_full or self._groups.get(peer) == group)
                and peer not in kept
            ]
        elif spares:
            return spares.pop(0)
        else:
            choice = self._beyond_share(limit, kept) or [p for p in self._sources if p not in kept]
        return rng.choice(choice) if choice else None

    def _beyond_share(self, limit: int, kept: Collection[PeerId]) -> list[PeerId]:
        sources = {label for label, count in self._from_source.items() if count > limit}
        groups = {label for label, count in self._in_group.items() if count > limit}
        if not sources and not groups:
            return []
        entries = [(p, source) for p, source in self._sources.items() if p not in kept]
        return [p for p, source in entries if source in sources or self._groups.get(p) in groups]


def _count(counts: dict[Group, int], label: Group | None, change: int) -> None:
    if label is not None:
        counts[label] = counts.get(label, 0) + change
        if not counts[label]:
            del counts[label]
