"""Links that are there from the start, for drivers that begin with an overlay."""

from __future__ import annotations

from episub_router.protocol.hyparview.machine import HyParView
from episub_router.protocol.messages import Neighbor
from episub_router.protocol.types import PeerId, Time


def take_standing_link(
    machine: HyParView, peer: PeerId, described: Neighbor, rtt: float, now: Time
) -> None:
    """Put `peer`, whose round trips take `rtt` seconds, into the active view of `machine`, which
    has been given a JoinOverlay, with what it `described` about itself, its list included. The
    effects come with those of the next event, which should be that `peer` is connected."""
    state = machine._state
    state.add_link(peer, described.kind, now, described)
    state.update_rtt(peer, rtt)
