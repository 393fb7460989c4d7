"""Join handler: what members do with the joins of others (E03, E05-E07)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from episub_router.protocol.effects import DropReason
from episub_router.protocol.hyparview.overlay import PASSIVE_SHARE, Overlay
from episub_router.protocol.messages import ForwardJoin, GetNodes, Join, LinkKind, Nodes
from episub_router.protocol.types import PeerId, Time

NODES_GIVEN = 8
"""Peers in a NODES at most. Chosen: three contacts name more than a joining node needs."""

_SAMPLED = 2
"""Random ones of those, unless a number was asked for: ids next to a given node can be made."""

_NAMED_EACH = 2
"""Peers named on either side of each ring. Chosen: the next one, and one should that fail."""

MAX_RECENT_JOINERS = 1024
"""Peers remembered that asked for nodes. Chosen: some 100 KB."""

RECENT = 3600.0
"""Seconds for which such a peer is named. Chosen: at rest a contact is asked each 20 minutes."""


class JoinHandler:
    """Answers GETNODES, and accepts or passes on JOIN and FORWARDJOIN."""

    __slots__ = ("_overlay", "_recent_joiners")

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._recent_joiners: dict[PeerId, Time] = {}
        """When peers asked for nodes, oldest first. Empty without rings."""

    def on_get_nodes(self, sender: PeerId, asked: GetNodes, now: Time) -> None:
        """GETNODES: name peers next to the sender on rings, and a sample of both views (E03)."""
        overlay = self._overlay
        count = min(asked.count or NODES_GIVEN, NODES_GIVEN)
        peers = self._next_on_rings(sender, now)[: count if asked.count else count - _SAMPLED]
        peers += overlay.active.sample(overlay.rng, (count - len(peers)) // 2, sender, *peers)
        peers += overlay.passive.sample(overlay.rng, count - len(peers), sender, *peers)
        overlay.send(sender, Nodes(tuple(peers), overlay.params.join_ttl))

    def _next_on_rings(self, sender: PeerId, now: Time) -> list[PeerId]:
        overlay = self._overlay
        if overlay.places is None:
            return []
        joiners = self._recent_joiners
        while joiners and now - next(iter(joiners.values())) >= RECENT:
            del joiners[next(iter(joiners))]
        known = [*overlay.active, *overlay.passive, *joiners]
        self._note_joiner(sender, now)
        return overlay.places.nearest(sender, known, _NAMED_EACH)

    def _note_joiner(self, peer: PeerId, now: Time) -> None:
        """Remember `peer` in place of the oldest, of its own group where that has its share."""
        joiners, group_of = self._recent_joiners, self._overlay.group_of
        joiners.pop(peer, None)
        if len(joiners) >= MAX_RECENT_JOINERS:
            group = group_of(peer)
            like = [other for other in joiners if group is not None and group_of(other) == group]
            has_share = len(like) >= PASSIVE_SHARE * MAX_RECENT_JOINERS
            del joiners[like[0] if has_share else next(iter(joiners))]
        joiners[peer] = now

    def on_join(self, sender: PeerId, join: Join, now: Time) -> None:
        """JOIN: accept where there is room or the walk ends here, else pass it on (E05, E06).
        This is settled before the dial of E05, as passing on needs no connection."""
        overlay = self._overlay
        joiner = join.peer
        if join.ttl < 0:
            overlay.drop(sender, DropReason.TTL_INVALID)
            return
        ttl = min(join.ttl, overlay.params.join_ttl)
        link = overlay.active.get(joiner)
        room = len(overlay.active) < overlay.params.active_size
        if joiner == overlay.me or link is not None:
            if not self._forward(sender, join, ttl) and link is not None:
                overlay.send_accept(joiner, link.kind)
        elif room or ttl == 0 or overlay.is_next_on_a_ring(joiner):
            self._dial(sender, join, ttl, now)
        elif not self._forward(sender, join, ttl):
            self._dial(sender, join, 0, now)

    def _dial(self, sender: PeerId, join: Join, ttl: int, now: Time) -> None:
        admit = partial(self._admit, sender, join, ttl)
        self._overlay.when_connected(join.peer, admit, now, for_others=True)

    def _admit(self, sender: PeerId, join: Join, ttl: int, up: bool, now: Time) -> None:
        overlay = self._overlay
        joiner = join.peer
        if not up:
            overlay.drop(sender, DropReason.UNREACHABLE)
            self._forward(sender, join, ttl)
        elif joiner in overlay.active:
            return
        elif overlay.make_room(joiner, in_need=True):
            overlay.accept(joiner, LinkKind.RANDOM, now, None)
            walker = overlay.active.pick(overlay.rng, joiner)
            if walker is not None:
                overlay.send(walker, ForwardJoin(joiner, overlay.params.join_ttl))
        else:
            overlay.reject(joiner, DropReason.VIEW_FULL)

    def _forward(self, sender: PeerId, message: Join | ForwardJoin, ttl: int) -> bool:
        """Pass `message` on to one random neighbour; False where the walk ends here."""
        overlay = self._overlay
        walker = overlay.active.pick(overlay.rng, sender, message.peer) if ttl > 0 else None
        if walker is not None:
            overlay.send(walker, replace(message, ttl=ttl - 1))
        return walker is not None

    def on_forward_join(self, sender: PeerId, message: ForwardJoin) -> None:
        """FORWARDJOIN: remember the new node, and pass the message on (E07)."""
        overlay = self._overlay
        if message.ttl < 0:
            overlay.drop(sender, DropReason.TTL_INVALID)
            return
        overlay.remember(message.peer, sender)
        self._forward(sender, message, min(message.ttl, overlay.params.join_ttl))

    def forget(self, peer: PeerId) -> None:
        self._recent_joiners.pop(peer, None)

    def clear(self) -> None:
        self._recent_joiners.clear()
