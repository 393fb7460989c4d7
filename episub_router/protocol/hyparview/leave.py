"""Leave: saying goodbye, and forgetting the nodes that have left (E14)."""

from __future__ import annotations

from episub_router.protocol.effects import DownReason, DropReason
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.messages import Disconnect, Leave, Message
from episub_router.protocol.types import PeerId

LEAVE_TTL = 3
"""Hops of a LEAVE. Ours: it reaches the neighbours of the leaver's neighbours."""


class LeaveProcedure:
    """Says goodbye for this node, and passes the LEAVEs of others on.

    The driver passes in each LEAVE only once, and only if its source has signed it.
    """

    __slots__ = ("_state",)

    def __init__(self, state: OverlayState) -> None:
        self._state = state

    def leave(self, proof: bytes) -> None:
        """End all links: with LEAVE if there is a `proof` that it is ours, else DISCONNECT."""
        state = self._state
        farewell: Message = Disconnect(alive=False)
        if proof:
            farewell = Leave(state.me, LEAVE_TTL, proof)
        for peer in list(state.active):
            state.send(peer, farewell)
            state.drop_link(peer, DownReason.LEFT, notify=False, remember=False)

    def on_leave(self, sender: PeerId, message: Leave) -> bool:
        """LEAVE: forget its source, and pass it on if the source was known here.

        True if the source was a neighbour.
        """
        state = self._state
        if message.source == state.me:
            state.drop(sender, DropReason.ABOUT_SELF)
            return False
        if message.ttl < 0:
            state.drop(sender, DropReason.TTL_INVALID)
            return False
        was_neighbor = message.source in state.active
        state.drop_link(message.source, DownReason.LEFT, notify=False, remember=False)
        known = state.passive.remove(message.source) or was_neighbor
        ttl = min(message.ttl, LEAVE_TTL)
        # Anybody can make an identity that leaves: a stranger's LEAVE ends here.
        if known:
            passed_on = Leave(message.source, max(0, ttl - 1), message.proof)
            for peer in state.active:
                if peer != sender:
                    state.send(peer, passed_on)
        return was_neighbor
