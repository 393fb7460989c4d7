"""Join handler: what members do with the joins of others (E03, E05-E07)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from episub_router.protocol.effects import DropReason
from episub_router.protocol.hyparview.overlay import PASSIVE_SHARE, Overlay
from episub_router.protocol.messages import (
    Disconnect,
    ForwardJoin,
    GetNodes,
    Join,
    LinkKind,
    NeighborRole,
    Nodes,
)
from episub_router.protocol.types import PeerId, Time

NODES_GIVEN = 8
"""Peers in a NODES at most. Chosen: three contacts name more than a joining node needs, and each
costs the bytes of two messages' control."""

_SAMPLED = 2
"""Of those, random peers at least, where no number was asked for: walks start there, and ids can be
searched for that are next to a given node."""

_NAMED_EACH = 2
"""Peers named on either side of each ring. Chosen: the next one, and one more should that fail."""

MAX_RECENT_JOINERS = 1024
"""Peers remembered that asked for nodes. Chosen: some 100 KB, of contacts alone."""

RECENT = 3600.0
"""Seconds for which such a peer is named to others. Chosen: at rest a node asks a contact each
twenty minutes."""


class JoinHandler:
    """Answers GETNODES, and accepts or passes on JOIN and FORWARDJOIN."""

    __slots__ = ("_overlay", "_recent_joiners")

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._recent_joiners: dict[PeerId, Time] = {}
        """Peers that asked for nodes, and so exist, and when: nodes that join through the same
        contacts find each other. Empty without rings."""

    def on_get_nodes(self, sender: PeerId, asked: GetNodes, now: Time) -> None:
        """GETNODES: answer with peers next to the sender on rings, if there are some, and with a
        sample of active and passive peers (E03)."""
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

        Whether to accept is settled before the dial that E05 puts first: a node that would
        only forward needs no connection, and where the dial fails the outcome is the same.
        """
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
                overlay.send_neighbor(joiner, NeighborRole.ACCEPT, link.kind)
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
            pass
        elif overlay.make_room(joiner, in_need=True):
            overlay.add_link(joiner, LinkKind.RANDOM, now, None)
            overlay.send_neighbor(joiner, NeighborRole.ACCEPT, LinkKind.RANDOM)
            walker = overlay.active.pick(overlay.rng, joiner)
            if walker is not None:
                overlay.send(walker, ForwardJoin(joiner, overlay.params.join_ttl))
        else:
            overlay.drop(joiner, DropReason.VIEW_FULL)
            overlay.send(joiner, Disconnect())
            overlay.release(joiner)

    def _forward(self, sender: PeerId, join: Join, ttl: int) -> bool:
        """Pass the JOIN on to one random neighbour; False where the walk ends here."""
        overlay = self._overlay
        walker = overlay.active.pick(overlay.rng, sender, join.peer) if ttl > 0 else None
        if walker is None:
            return False
        overlay.send(walker, replace(join, ttl=ttl - 1))
        return True

    def on_forward_join(self, sender: PeerId, message: ForwardJoin) -> None:
        """FORWARDJOIN: remember the new node, and pass the message on along one walk (E07)."""
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

    def forget(self, peer: PeerId) -> None:
        """Name `peer` to nobody."""
        self._recent_joiners.pop(peer, None)

    def clear(self) -> None:
        self._recent_joiners.clear()
