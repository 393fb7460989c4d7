"""One topic's overlay as a router sees it at one moment, for people and tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from libp2p.peer.id import ID

from episub_router.protocol.messages import LinkKind


@dataclass(frozen=True, slots=True)
class NeighborSnapshot:
    """One entry of the active view."""

    peer: ID
    kind: LinkKind
    rtt: float | None
    """Smoothed round trip in seconds; None until it was measured."""
    eager: bool
    """Whether payloads are pushed to it; otherwise they are announced."""


@dataclass(frozen=True, slots=True)
class OverlaySnapshot:
    """Nothing in it changes later."""

    topic: str
    active: tuple[NeighborSnapshot, ...]
    passive: tuple[ID, ...]
    validating: int
    """Payloads that Pubsub has not accepted yet."""
    missing: int
    """Messages that were announced and have not come yet."""
    hops: Mapping[int, int]
    """How many messages were delivered after how many hops; 0 is our own."""
    counters: Mapping[str, int]
    """Counts by reason since the router was made, over all topics."""

    @property
    def eager(self) -> tuple[ID, ...]:
        return tuple(neighbor.peer for neighbor in self.active if neighbor.eager)

    @property
    def lazy(self) -> tuple[ID, ...]:
        return tuple(neighbor.peer for neighbor in self.active if not neighbor.eager)
