"""One topic's overlay as a router sees it at one moment, for people and tools."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from libp2p.peer.id import ID

from episub_router.protocol.messages import LinkKind
from episub_router.protocol.topic import Topic


@dataclass(frozen=True, slots=True)
class NeighborSnapshot:
    """A neighbour: one entry of the active view."""

    peer: ID
    kind: LinkKind
    rtt: float | None
    """Smoothed round-trip time in seconds; None until it was measured."""
    eager: bool
    """Whether payloads are pushed to it; otherwise they are announced."""
    standing: float
    """What it has earned and lost, and what the application gave it."""


@dataclass(frozen=True, slots=True)
class TreeSnapshot:
    """This node's part in the tree of one source."""

    source: bytes
    """The first eight bytes of the SHA-256 of the source's peer id."""
    own: bool
    """Whether this node is the source."""
    parent: ID | None
    """The neighbour that pushes to us."""
    children: tuple[ID, ...]
    """Neighbours that we push to."""
    standbys: tuple[ID, ...]
    """Neighbours that announce each message to us at once."""
    cost: float
    """Seconds from the source, as the nodes on the way estimate them."""
    second_parent: ID | None = None
    """The other neighbour that pushes to us, in a protected topic."""


@dataclass(frozen=True, slots=True)
class OverlaySnapshot:
    """What a router knows of one topic's overlay at one moment; nothing in it changes later."""

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
    trees: tuple[TreeSnapshot, ...] = ()
    """Per-source trees, the one used last at the end."""

    @property
    def eager(self) -> tuple[ID, ...]:
        return tuple(neighbor.peer for neighbor in self.active if neighbor.eager)

    @property
    def lazy(self) -> tuple[ID, ...]:
        return tuple(neighbor.peer for neighbor in self.active if not neighbor.eager)


def overlay_snapshot(
    machine: Topic, hops: Mapping[int, int], counters: Mapping[str, int], now: float
) -> OverlaySnapshot:
    """What `machine` knows at `now`, with a driver's counters and its deliveries by hops."""
    broadcast = machine.broadcast
    return OverlaySnapshot(
        topic=machine.name,
        active=tuple(
            NeighborSnapshot(
                _id(peer),
                link.kind,
                None if link.rtt is None else link.rtt.mean,
                broadcast.pushes_to(peer),
                broadcast.standings.of(peer, now),
            )
            for peer, link in machine.membership.active.items()
        ),
        passive=tuple(_id(peer) for peer in machine.membership.passive),
        validating=broadcast.pending,
        missing=broadcast.missing,
        hops=MappingProxyType(dict(hops)),
        counters=counters,
        trees=tuple(
            TreeSnapshot(
                source,
                tree.own,
                None if tree.parent is None else _id(tree.parent),
                tuple(map(_id, tree.children)),
                tuple(map(_id, tree.standbys)),
                tree.cost,
                _id(tree.parents[1]) if len(tree.parents) > 1 else None,
            )
            for source, tree in broadcast.trees.items()
        ),
    )


def _id(peer: Any) -> ID:
    """The core knows peers as bytes here."""
    return ID(peer)
