"""Bounds of the tables that the router keeps about other peers."""

from __future__ import annotations

from dataclasses import dataclass, fields

from episub_router.util.params import param


@dataclass(frozen=True, slots=True, kw_only=True)
class NetLimits:
    """Bounds of the address book and of the sequence id tables."""

    book_peers: int = param(
        4096, "peers", "ours: the passive views (42 peers) of about a hundred topics"
    )
    max_addresses: int = param(32, "addresses", "ours: a host with many interfaces has fewer")
    sequence_peers: int = param(4096, "peers", "ours: many times the connections of one host")
    sequence_window: int = param(
        128, "frames", "ours: four of py-libp2p's send queues (32), in which frames overtake"
    )

    def __post_init__(self) -> None:
        for spec in fields(self):
            if getattr(self, spec.name) < 1:
                raise ValueError(f"{spec.name} must be at least 1: {getattr(self, spec.name)}")


DEFAULT_LIMITS = NetLimits()
