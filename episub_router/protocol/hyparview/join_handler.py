"""Join handler: what a member of the overlay does with the joins of others (E03, E05-E07)."""

from __future__ import annotations

from functools import partial

from episub_router.protocol.effects import DropReason
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.messages import (
    Disconnect,
    ForwardJoin,
    Join,
    LinkKind,
    NeighborRole,
    Nodes,
)
from episub_router.protocol.types import PeerId, Time


class JoinHandler:
    """What a member of the overlay does with the joins of others (E03, E05-E07)."""

    __slots__ = ("_overlay",)

    def __init__(self, overlay: OverlayState) -> None:
        self._overlay = overlay

    def on_get_nodes(self, sender: PeerId) -> None:
        """GETNODES: answer with a sample of passive and active peers (E03)."""
        overlay = self._overlay
        size = overlay.params.nodes_size
        peers = overlay.active.sample(overlay.rng, size // 2, sender)
        peers += overlay.passive.sample(overlay.rng, size - len(peers), sender)
        overlay.send(sender, Nodes(tuple(peers), overlay.params.join_ttl))

    def on_join(self, sender: PeerId, join: Join, now: Time) -> None:
        """JOIN: accept where there is room or the walk ends here, else pass it on (E05, E06).

        Whether to accept is settled before the dial that E05 puts first: a node that would
        only forward needs no connection, and where the dial fails the outcome is the same.
        """
        overlay = self._overlay
        joiner = join.peer
        if join.ttl < 0:
            overlay.drop(sender, DropReason.TTL_INVALID)
            return
        ttl = min(join.ttl, overlay.params.join_ttl)
        if joiner == overlay.me:
            self._forward(sender, joiner, ttl)
        elif (link := overlay.active.get(joiner)) is not None:
            if not self._forward(sender, joiner, ttl):
                overlay.tell(joiner, NeighborRole.ACCEPT, link.kind)
        elif len(overlay.active) < overlay.params.active_size or ttl == 0:
            self._dial(sender, joiner, ttl, now)
        elif not self._forward(sender, joiner, ttl):
            self._dial(sender, joiner, 0, now)

    def _dial(self, sender: PeerId, joiner: PeerId, ttl: int, now: Time) -> None:
        admit = partial(self._admit, sender, joiner, ttl)
        self._overlay.when_connected(joiner, admit, now, for_others=True)

    def _admit(self, sender: PeerId, joiner: PeerId, ttl: int, up: bool, now: Time) -> None:
        overlay = self._overlay
        if not up:
            overlay.drop(sender, DropReason.UNREACHABLE)
            self._forward(sender, joiner, ttl)
        elif joiner in overlay.active:
            pass
        elif len(overlay.active) >= overlay.params.active_bound:
            overlay.drop(sender, DropReason.VIEW_FULL)
            overlay.send(joiner, Disconnect())
            overlay.release(joiner)
        else:
            overlay.add_link(joiner, LinkKind.RANDOM, now)
            overlay.tell(joiner, NeighborRole.ACCEPT, LinkKind.RANDOM)
            walker = overlay.active.pick(overlay.rng, joiner)
            if walker is not None:
                overlay.send(walker, ForwardJoin(joiner, overlay.params.join_ttl))

    def _forward(self, sender: PeerId, joiner: PeerId, ttl: int) -> bool:
        """Pass the JOIN on to one random neighbour; False where the walk ends here."""
        overlay = self._overlay
        walker = overlay.active.pick(overlay.rng, sender, joiner) if ttl > 0 else None
        if walker is None:
            return False
        overlay.send(walker, Join(joiner, ttl - 1))
        return True

    def on_forward_join(self, sender: PeerId, message: ForwardJoin) -> None:
        """FORWARDJOIN: remember the new node, and pass the news on along one walk (E07)."""
        overlay = self._overlay
        if message.ttl < 0:
            overlay.drop(sender, DropReason.TTL_INVALID)
            return
        overlay.remember(message.peer, sender)
        ttl = min(message.ttl, overlay.params.join_ttl)
        if ttl > 0:
            walker = overlay.active.pick(overlay.rng, sender, message.peer)
            if walker is not None:
                overlay.send(walker, ForwardJoin(message.peer, ttl - 1))
