"""Join handler: what a member of the overlay does with the joins of others (E03, E05-E07)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from episub_router.protocol.effects import DropReason
from episub_router.protocol.hyparview.rings.links import is_next_on_a_ring, make_room_on_ring
from episub_router.protocol.hyparview.state import OverlayState
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
"""Peers in our NODES. Ours: three contacts name more than a joining node needs, and each costs the
bytes of two messages' control."""

_NAMED_EACH = 2
"""Peers named on either side of each ring. Ours: the next one, and one more should that fail."""

_SAMPLED = 2
"""Peers of NODES that are a random sample at least, where none but those on rings were asked for:
walks start there, and ids can be searched for that are next to a given node."""


class JoinHandler:
    """Answers GETNODES, and accepts or passes on JOIN and FORWARDJOIN."""

    __slots__ = ("_state",)

    def __init__(self, state: OverlayState) -> None:
        self._state = state

    def on_get_nodes(self, sender: PeerId, asked: GetNodes, now: Time) -> None:
        """GETNODES: answer with a sample of passive and active peers (E03)."""
        state = self._state
        count = min(asked.count or NODES_GIVEN, NODES_GIVEN)
        most = count if asked.count else count - _SAMPLED
        peers = self._next_on_rings(sender, now)[:most]
        peers += state.active.sample(state.rng, (count - len(peers)) // 2, sender, *peers)
        peers += state.passive.sample(state.rng, count - len(peers), sender, *peers)
        state.send(sender, Nodes(tuple(peers), state.params.join_ttl))

    def _next_on_rings(self, sender: PeerId, now: Time) -> list[PeerId]:
        """With rings: the peers next to `sender` that we know, which is known to others from now
        on."""
        state = self._state
        if state.places is None:
            return []
        known = [*state.active, *state.passive, *state.askers]
        found = state.places.nearest(sender, known, _NAMED_EACH)
        state.askers.add(sender, now)
        return found

    def on_join(self, sender: PeerId, join: Join, now: Time) -> None:
        """JOIN: accept where there is room or the walk ends here, else pass it on (E05, E06).

        Whether to accept is settled before the dial that E05 puts first: a node that would
        only forward needs no connection, and where the dial fails the outcome is the same.
        """
        state = self._state
        joiner = join.peer
        if join.ttl < 0:
            state.drop(sender, DropReason.TTL_INVALID)
            return
        ttl = min(join.ttl, state.params.join_ttl)
        if joiner == state.me:
            self._forward(sender, join, ttl)
        elif (link := state.active.get(joiner)) is not None:
            if not self._forward(sender, join, ttl):
                state.send_neighbor(joiner, NeighborRole.ACCEPT, link.kind, nonce=join.nonce)
        elif self._has_room(joiner) or ttl == 0:
            self._dial(sender, join, ttl, now)
        elif not self._forward(sender, join, ttl):
            self._dial(sender, join, 0, now)

    def _has_room(self, joiner: PeerId) -> bool:
        state = self._state
        return len(state.active) < state.params.active_size or is_next_on_a_ring(state, joiner)

    def _dial(self, sender: PeerId, join: Join, ttl: int, now: Time) -> None:
        admit = partial(self._admit, sender, join, ttl)
        self._state.when_connected(join.peer, admit, now, for_others=True)

    def _admit(self, sender: PeerId, join: Join, ttl: int, up: bool, now: Time) -> None:
        state = self._state
        joiner = join.peer
        if not up:
            state.drop(sender, DropReason.UNREACHABLE)
            self._forward(sender, join, ttl)
        elif joiner in state.active:
            pass
        elif is_next_on_a_ring(state, joiner):
            make_room_on_ring(state)
            self._accept(join, now)
        elif not state.has_room_for_wish(joiner):
            state.send(joiner, Disconnect())
            state.release(joiner)
        else:
            self._accept(join, now)

    def _accept(self, join: Join, now: Time) -> None:
        state = self._state
        joiner = join.peer
        state.add_on_wish(joiner, LinkKind.RANDOM, now, join)
        state.send_neighbor(joiner, NeighborRole.ACCEPT, LinkKind.RANDOM, nonce=join.nonce)
        walker = state.active.pick(state.rng, joiner)
        if walker is not None:
            state.send(walker, ForwardJoin(joiner, state.params.join_ttl))

    def _forward(self, sender: PeerId, join: Join, ttl: int) -> bool:
        """Pass the JOIN on to one random neighbour; False where the walk ends here."""
        state = self._state
        walker = state.active.pick(state.rng, sender, join.peer) if ttl > 0 else None
        if walker is None:
            return False
        state.send(walker, replace(join, ttl=ttl - 1))
        return True

    def on_forward_join(self, sender: PeerId, message: ForwardJoin) -> None:
        """FORWARDJOIN: remember the new node, and pass the message on along one walk (E07)."""
        state = self._state
        if message.ttl < 0:
            state.drop(sender, DropReason.TTL_INVALID)
            return
        state.remember(message.peer, sender)
        ttl = min(message.ttl, state.params.join_ttl)
        if ttl > 0:
            walker = state.active.pick(state.rng, sender, message.peer)
            if walker is not None:
                state.send(walker, ForwardJoin(message.peer, ttl - 1))
