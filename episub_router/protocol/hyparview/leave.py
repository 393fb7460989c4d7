"""Leaving the overlay, and forgetting those who left (E14)."""

from __future__ import annotations

from episub_router.protocol.effects import DownReason, DropReason
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.messages import Disconnect, Leave, Message
from episub_router.protocol.types import PeerId


class LeaveProcedure:
    """Says goodbye, and passes the LEAVEs of others on, each once."""

    __slots__ = ("_heard", "_overlay")

    def __init__(self, overlay: OverlayState) -> None:
        self._overlay = overlay
        self._heard: dict[tuple[PeerId, bytes], None] = {}

    def leave(self, proof: bytes) -> None:
        """End all links: with LEAVE where we can prove that it is ours, else DISCONNECT."""
        overlay = self._overlay
        farewell: Message = Disconnect(alive=False)
        if proof:
            farewell = Leave(overlay.me, overlay.params.leave_ttl, proof)
        for peer in list(overlay.active):
            overlay.send(peer, farewell)
            overlay.drop_link(peer, DownReason.LEFT, tell=False, remember=False)

    def on_leave(self, sender: PeerId, message: Leave) -> bool:
        """LEAVE: forget the source, and pass the news on if it was news here or TTL is left.

        Each LEAVE is acted on once, whatever its TTL, so that it can't loop. True if the
        source was a neighbour.
        """
        overlay = self._overlay
        key = (message.source, message.proof)
        if message.source == overlay.me:
            overlay.drop(sender, DropReason.ABOUT_SELF)
            return False
        if message.ttl < 0:
            overlay.drop(sender, DropReason.TTL_INVALID)
            return False
        if key in self._heard:
            overlay.drop(sender, DropReason.LEAVE_REPEATED)
            return False
        self._heard[key] = None
        if len(self._heard) > overlay.params.leave_memory:
            del self._heard[next(iter(self._heard))]
        was_neighbor = message.source in overlay.active
        overlay.drop_link(message.source, DownReason.LEFT, tell=False, remember=False)
        known = overlay.passive.remove(message.source) or was_neighbor
        ttl = min(message.ttl, overlay.params.leave_ttl)
        if known or ttl > 0:
            passed_on = Leave(message.source, max(0, ttl - 1), message.proof)
            for peer in overlay.active:
                if peer != sender:
                    overlay.send(peer, passed_on)
        return was_neighbor

    def stop(self) -> None:
        self._heard.clear()
