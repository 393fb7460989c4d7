"""Links of rings: which neighbours are next to this node, and what gives way to them."""

from __future__ import annotations

from collections.abc import Collection

from episub_router.protocol.effects import DownReason
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.types import PeerId


def ring_holders(state: OverlayState, *others: PeerId) -> dict[PeerId, None]:
    """Those of the neighbours, and of `others`, that are next to this node on a ring."""
    if state.places is None:
        return {}
    return state.places.holders(state.me, [*state.active, *others])


def is_next_on_a_ring(state: OverlayState, peer: PeerId) -> bool:
    """Whether `peer`, no neighbour yet, is nearer on a ring than those that are."""
    return state.places is not None and peer in ring_holders(state, peer)


def kept_links(state: OverlayState) -> Collection[PeerId]:
    """Links that no claim, request or nearness of another peer ends: those of rings, which give way
    to the peer that is next, and the proved ones among the other random links."""
    params = state.params
    if state.places is None:
        return state.active.proved((params.random_links + 1) // 2)
    holders = ring_holders(state)
    return [*holders, *state.active.proved(params.random_links - params.ring_links, holders)]


def make_room_on_ring(state: OverlayState) -> None:
    """A full view gives up the newest link that is on no ring."""
    if len(state.active) < state.params.active_bound:
        return
    holders = ring_holders(state)
    others = [peer for peer in state.active if peer not in holders]
    if others:
        state.drop_link(others[-1], DownReason.EVICTED, notify=True, remember=True)
