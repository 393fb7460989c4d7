"""Links and known peers that are there from the start, for drivers that begin with an overlay."""

from __future__ import annotations

from collections.abc import Iterable

from episub_router.protocol.hyparview.machine import HyParView
from episub_router.protocol.messages import Neighbor
from episub_router.protocol.types import PeerId, Time


def take_standing_link(
    machine: HyParView, peer: PeerId, described: Neighbor, rtt: float, now: Time
) -> None:
    """Put `peer`, whose round trips take `rtt` seconds, into the active view of `machine`, which
    has been given a JoinOverlay and is connected to `peer`, with what that one `described` about
    itself, its list included. The effects come with those of the next event."""
    state = machine._state
    state.add_link(peer, described.kind, now, described)
    state.update_rtt(peer, rtt)


def take_known_peers(machine: HyParView, peers: Iterable[PeerId]) -> None:
    """Put `peers` into the passive view of `machine`, which has been given a JoinOverlay."""
    for peer in peers:
        machine._state.remember(peer)
