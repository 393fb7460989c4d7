"""The plain types that the whole core shares."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeAlias

PeerId: TypeAlias = Hashable
"""A node's identity, which the core hashes and orders: the router passes the bytes of a libp2p
peer id, the simulator small ints."""

Group: TypeAlias = Hashable
"""What the peers of one owner probably have in common, such as an address prefix."""

MayBan: TypeAlias = Callable[[PeerId], bool]
"""The driver's function that is asked before a peer is banned."""

GroupOf: TypeAlias = Callable[[PeerId], Group | None]
"""The driver's function from a peer to its group; None where a peer is in none."""

RttOf: TypeAlias = Callable[[PeerId], float | None]
"""How broadcast learns a neighbour's smoothed RTT, in seconds; None while it is unknown."""

MessageId: TypeAlias = Hashable
"""A payload message's identity; `bytes` on a real network."""

SourceId: TypeAlias = Any
"""The publisher of a message: ids that can be hashed and ordered, of one type within a topic."""

SourceOf: TypeAlias = Callable[[PeerId], SourceId]
"""The driver's function from a peer to the source that it is."""

Time: TypeAlias = float
"""Seconds on the driver's monotonic clock. The core never reads a clock itself."""

NEVER: Time = float("inf")
"""The deadline of a machine that waits for nothing."""


def itself(peer: PeerId) -> SourceId:
    """The source that `peer` is where sources are peers."""
    return peer


def anyone(peer: PeerId) -> bool:
    """Whether `peer` may be banned where the driver has no say: yes."""
    return True


def ungrouped(peer: PeerId) -> Group | None:
    """The group of every peer where the driver knows no addresses: none."""
    return None
