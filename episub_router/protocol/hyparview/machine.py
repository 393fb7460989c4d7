"""The membership machine: passes events, messages and timers to their procedures, and repairs what
is lost. NeighborUp and NeighborDown effects carry changes of the active view to broadcast."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from episub_router.protocol import events as ev
from episub_router.protocol import messages as msg
from episub_router.protocol.effects import DownReason, DropReason, Effect
from episub_router.protocol.hyparview.join import JoinHandler, JoinProcedure
from episub_router.protocol.hyparview.link_check import LinkCheck, Stabilization
from episub_router.protocol.hyparview.neighbor import Neighbors
from episub_router.protocol.hyparview.overlay import Overlay, Timer
from episub_router.protocol.hyparview.proximity import Proximity
from episub_router.protocol.hyparview.rings import Contact, Search
from episub_router.protocol.hyparview.shuffle import ShuffleProcedure
from episub_router.protocol.params import MembershipParams
from episub_router.protocol.types import GroupOf, PeerId, Time, ungrouped
from episub_router.util.params import Rate
from episub_router.util.token_buckets import TokenBuckets

LEAVE_TTL = 3
"""Hops of a LEAVE. Chosen: it reaches the neighbours of the leaver's neighbours."""

LIMITS: dict[type, Rate] = {
    msg.Join: Rate(5, 100),  # Measured: 27 while 300 nodes join at once, 15 while 1,000 do in 10 s.
    msg.ForwardJoin: Rate(0.2, 30),  # Chosen: a link carries 0.03/s at 1 % churn a second.
    msg.Neighbor: Rate(1, 20),  # Measured: 3 at once; link checks take one each 7 s.
    msg.Shuffle: Rate(1, 20),  # Measured: 4 at once; a link carries one in 4 s.
    msg.Leave: Rate(20, 200),  # Measured: 91 when half of 1,000 nodes leave at once.
    msg.GetNodes: Rate(0.5, 10),  # Chosen: a node without neighbours asks once in 3 s.
    msg.GetTopics: Rate(0.5, 10),
}
"""Messages a second, and at once, of one peer; other kinds are not limited here."""

REQUEST_LIMIT = Rate(0.1, 5)
"""NEIGHBOR requests of one peer. Chosen: one in need asks again after 10 s (`neighbor`)."""

MAX_PEERS = 1024
"""Peers remembered for each kind. Chosen: several times a host's connections."""

_ROUNDS_FROM_THE_START = (
    Timer.GROW, Timer.SHUFFLE, Timer.LINK_CHECK, Timer.PROXIMITY, Timer.SEARCH,
)  # fmt: skip


class HyParView:
    """The overlay of the topic `name`, as seen by the node `me`.

    Drive it with `handle` and `handle_timer`; both return the effects in order.
    """

    __slots__ = (
        "_contact", "_join", "_join_handler", "_link_check", "_neighbors", "_overlay", "_proximity",
        "_rate_limiter", "_search", "_shuffle", "_stabilization", "active", "joined", "passive",
    )  # fmt: skip

    def __init__(
        self, me: PeerId, name: str, params: MembershipParams, rng: Random,
        group_of: GroupOf = ungrouped,
    ) -> None:  # fmt: skip
        self._overlay = Overlay(me, name, params, rng, group_of)
        self.active = self._overlay.active
        self.passive = self._overlay.passive
        self._rate_limiter = RateLimiter()
        self._start_afresh()

    def _start_afresh(self) -> None:
        overlay = self._overlay
        self.joined = False
        self._join = JoinProcedure(overlay)
        self._join_handler = JoinHandler(overlay)
        self._contact = Contact(overlay)
        self._neighbors = Neighbors(overlay, self._on_refused)
        self._search = Search(overlay, self._join, self._neighbors)
        self._link_check = LinkCheck(overlay, self._on_link_failed)
        self._stabilization = Stabilization(overlay)
        self._proximity = Proximity(overlay, self._neighbors)
        self._shuffle = ShuffleProcedure(overlay)

    @property
    def joining(self) -> bool:
        return self._join.in_progress

    def rtt_of(self, peer: PeerId) -> float | None:
        """The smoothed RTT of the neighbour `peer` in seconds; None while it is unknown."""
        link = self.active.get(peer)
        return None if link is None or link.rtt is None else link.rtt.mean

    def note_activity(self, peer: PeerId, now: Time) -> bool:
        """Note a broadcast message from `peer`; False if it isn't a neighbour (E12)."""
        link = self.active.get(peer)
        if link is not None:
            link.last_activity = now
        return link is not None

    def suspect(self, peers: Iterable[PeerId], now: Time) -> list[Effect]:
        """Others have announced what these neighbours should have sent: are they there (E15)?"""
        for peer in peers if self.joined else ():
            self._link_check.doubt(peer, 1, now)
        return self._overlay.take_effects()

    def ban(self, peer: PeerId, until: Time, now: Time) -> list[Effect]:
        """End the link to `peer`, and have nothing to do with it `until` then."""
        was_neighbor = peer in self.active
        self._overlay.ban(peer, until)
        if was_neighbor and self.joined:
            self._replace_link(peer, now)
        return self._overlay.take_effects()

    def is_banned(self, peer: PeerId, now: Time) -> bool:
        return self._overlay.is_banned(peer, now)

    def on_non_neighbor(self, peer: PeerId, now: Time) -> list[Effect]:
        """A broadcast message came from `peer`, which isn't a neighbour: notify it (E12)."""
        if self.joined:
            self._link_check.on_non_neighbor(peer, now)
        return self._overlay.take_effects()

    def adopt_link(self, peer: PeerId, said: msg.Neighbor, rtt: float, now: Time) -> None:
        """Make the connected `peer` a neighbour, with its RTT in seconds and what it `said`, for
        drivers that begin with an overlay. The effects come with those of the next event."""
        self._overlay.add_link(peer, said.kind, now, said)
        self._update_rtt(peer, rtt)

    def adopt_peers(self, peers: Iterable[PeerId]) -> None:
        """Put `peers` into the passive view, for such drivers."""
        for peer in peers:
            self._overlay.remember(peer)

    # Events and timers

    def handle(self, event: ev.MembershipEvent, now: Time) -> list[Effect]:
        """Act on `event` at `now`."""
        match event:
            case ev.Received(peer, message):
                self._on_received(peer, message, now)
            case ev.RttMeasured(peer, rtt):
                self._on_rtt(peer, rtt, now)
            case ev.Connected(peer, probed):
                self._on_connected(peer, now, probed)
            case ev.DialFailed(peer):
                if not self._overlay.is_connected(peer):  # It may have dialled us meanwhile.
                    self.passive.remove(peer)
                    self._overlay.on_disconnected(peer, now)
            case ev.PeerDown(peer):
                self._on_peer_down(peer, now)
            case ev.Silent(peer):
                if self.joined:
                    self._link_check.doubt(peer, 1, now)
            case ev.NeighborQueried(peer):
                if (link := self.active.get(peer)) is not None:
                    self._overlay.query(peer, link)
            case ev.ContactsFound(contacts):
                self._on_contacts(contacts, now)
            case ev.JoinOverlay(contacts):
                self._on_join_overlay(contacts, now)
            case ev.LeaveOverlay(proof):
                self._on_leave_overlay(proof)
        return self._overlay.take_effects()

    def next_deadline(self) -> Time:
        """When `handle_timer` is next due; infinity while nothing is waited for."""
        return self._overlay.timers.deadline

    def handle_timer(self, now: Time) -> list[Effect]:
        """Do what is due at `now`; calling it early or late does no harm."""
        for timer, peer in self._overlay.timers.pop_due(now):
            _ON_TIMER[timer](self, peer, now)
        return self._overlay.take_effects()

    def _on_grow_timer(self, now: Time) -> None:
        self._neighbors.on_timer(now)
        self._rejoin_if_alone(now)

    def _on_join_overlay(self, contacts: tuple[PeerId, ...], now: Time) -> None:
        self._join.add_contacts(contacts)
        if not self.joined:
            self.joined = True
            for timer in _ROUNDS_FROM_THE_START:
                self._overlay.start_rounds(timer, now)
        self._join.start(now)

    def _on_contacts(self, contacts: tuple[PeerId, ...], now: Time) -> None:
        self._join.add_contacts(contacts)
        if not self.joined:
            return
        for contact in contacts:
            if len(self.passive) < self.passive.size:
                self._overlay.remember(contact)
        if not len(self.active):
            self._join.start(now)

    def _on_leave_overlay(self, proof: bytes) -> None:
        """E14: end all links, with LEAVE if there is a proof that it is ours, else DISCONNECT."""
        overlay = self._overlay
        farewell: msg.Message = msg.Disconnect(alive=False)
        if proof:
            farewell = msg.Leave(overlay.me, LEAVE_TTL, proof)
        for peer in list(self.active):
            overlay.send(peer, farewell)
            overlay.drop_link(peer, DownReason.LEFT, notify=False, remember=False)
        overlay.clear()
        self._start_afresh()

    def _on_connected(self, peer: PeerId, now: Time, probed: bool | None = None) -> None:
        self._overlay.on_connected(peer, now, probed)
        self._note_link(peer, now)

    def _on_peer_down(self, peer: PeerId, now: Time) -> None:
        """E15: a lost connection ends the link at once."""
        self._overlay.on_disconnected(peer, now)
        self._shuffle.on_peer_down(peer)
        self._neighbors.on_peer_down(peer, now)
        if peer in self.active:
            self._overlay.drop_link(peer, DownReason.FAILED, notify=False, remember=False)
            self._on_link_failed(peer, now)

    def _update_rtt(self, peer: PeerId, rtt: float | None) -> None:
        link = self.active.get(peer)
        if link is None:
            self.passive.update_rtt(peer, rtt)
        else:
            link.update_rtt(rtt)

    def _on_rtt(self, peer: PeerId, rtt: float | None, now: Time) -> None:
        self._proximity.on_rtt(peer, rtt)
        self._update_rtt(peer, rtt)
        if self._neighbors.on_rtt(peer, rtt, now):
            self._overlay.hasten_rounds(Timer.PROXIMITY, now)
        self._note_link(peer, now)

    # Links

    def _note_link(self, peer: PeerId, now: Time) -> None:
        """`peer` may be a new neighbour."""
        if peer not in self.active:
            return
        self._search.forget(peer)
        if self._neighbors.on_link(peer):
            self._search.on_link(peer, now)
            self._proximity.on_accept(peer, now)
            if not self._overlay.is_full:
                self._overlay.hasten_rounds(Timer.GROW, now)
        self._join.on_link()
        self._stabilization.on_change(now)

    def _on_refused(self, peer: PeerId, now: Time) -> None:
        """`peer`, which was asked for a link, has refused or could not be reached."""
        self._search.on_refusal(peer, now)
        if not self._join.awaits(peer):
            self._overlay.release(peer)
        if self._overlay.is_in_need and not self._join.in_progress:
            self._neighbors.grow(now)
            self._rejoin_if_alone(now)

    def _on_link_failed(self, peer: PeerId, now: Time) -> None:
        """The link to `peer` has failed: replace it now, and try the peer again later. Others may
        be gone, too: shuffle soon."""
        self._search.on_link_failed(peer, now)
        self._overlay.hasten_rounds(Timer.SHUFFLE, now)
        self._replace_link(peer, now)

    def _replace_link(self, peer: PeerId, now: Time) -> None:
        self._search.on_link_lost(peer, now)
        self._neighbors.on_link_lost(now)
        self._overlay.hasten_rounds(Timer.PROXIMITY, now)
        self._rejoin_if_alone(now)

    def _rejoin_if_alone(self, now: Time) -> None:
        if not len(self.active) and not self._neighbors.requests:
            self._join.start(now)

    # Messages

    def _on_received(self, sender: PeerId, message: msg.Message, now: Time) -> None:
        overlay = self._overlay
        # A peer that reached us can be answered before its connection is reported.
        if not overlay.is_connected(sender):
            self._on_connected(sender, now)
        if not self.joined:
            overlay.drop(sender, DropReason.NOT_JOINED)
        elif overlay.is_banned(sender, now):
            overlay.drop(sender, DropReason.FROM_BANNED)
            if not isinstance(message, msg.Disconnect):
                overlay.send(sender, msg.Disconnect())
        elif not self._rate_limiter.allows(sender, message, now):
            overlay.drop(sender, DropReason.RATE_LIMITED)
        elif sender not in overlay.active and _comes_over_links(sender, message):
            overlay.drop(sender, DropReason.NOT_NEIGHBOR)
            self._link_check.on_non_neighbor(sender, now)
        else:
            self._on_message(sender, message, now)

    def _on_message(self, sender: PeerId, message: msg.Message, now: Time) -> None:
        match message:
            case msg.Neighbor():
                self._on_neighbor(sender, message, now)
            case msg.Shuffle():
                self._shuffle.on_shuffle(sender, message, now)
            case msg.ShuffleReply():
                self._shuffle.on_reply(sender, message)
            case msg.GetTopics():
                self._overlay.send(sender, msg.Topics((self._overlay.name,)))
            case msg.Topics():
                self._proximity.on_topics(sender, message)
            case msg.Disconnect():
                self._on_disconnect(sender, message, now)
            case msg.Join():
                self._join_handler.on_join(sender, message, now)
                self._note_link(message.peer, now)
            case msg.ForwardJoin():
                self._join_handler.on_forward_join(sender, message)
            case msg.Leave():
                self._on_leave(sender, message, now)
            case msg.GetNodes():
                self._contact.on_get_nodes(sender, message, now)
            case msg.Nodes():
                self._on_nodes(sender, message, now)

    def _on_neighbor(self, sender: PeerId, message: msg.Neighbor, now: Time) -> None:
        match message.role:
            case msg.NeighborRole.REQUEST:
                self._neighbors.on_request(sender, message, now)
            case msg.NeighborRole.ACCEPT:
                self._neighbors.on_accept(sender, message, now < self._join.open_until, now)
            case msg.NeighborRole.QUERY:
                self._link_check.on_query(sender, message, now)
            case msg.NeighborRole.LIST:
                self._link_check.on_list(sender, message, now)
        self._note_link(sender, now)

    def _on_nodes(self, sender: PeerId, nodes: msg.Nodes, now: Time) -> None:
        if self._join.on_nodes(sender, nodes, now):
            self._search.learn((sender, *nodes.peers[: msg.MAX_NODES]), now)
            if not self._join.in_progress and sender not in self._neighbors.requests:
                self._overlay.release(sender)
        elif not self._shuffle.on_nodes(sender, nodes):
            self._overlay.drop(sender, DropReason.UNSOLICITED)

    def _on_disconnect(self, sender: PeerId, message: msg.Disconnect, now: Time) -> None:
        overlay = self._overlay
        if not message.alive:
            overlay.passive.remove(sender)
            self._search.forget(sender)
        was_neighbor = sender in overlay.active
        overlay.drop_link(sender, DownReason.ENDED, notify=False, remember=message.alive)
        self._neighbors.on_refusal(sender, now)
        if was_neighbor:
            self._neighbors.back_off(sender, now)
            self._replace_link(sender, now)

    def _on_leave(self, sender: PeerId, message: msg.Leave, now: Time) -> None:
        """E14: forget the source, and pass the LEAVE on if it was known here. The driver passes in
        each LEAVE once, and only if its source has signed it."""
        overlay, source = self._overlay, message.source
        if source == overlay.me:
            overlay.drop(sender, DropReason.ABOUT_SELF)
            return
        self._search.forget(source)
        was_neighbor = source in overlay.active
        overlay.drop_link(source, DownReason.LEFT, notify=False, remember=False)
        if overlay.passive.remove(source) or was_neighbor:
            ttl = max(0, min(message.ttl, LEAVE_TTL) - 1)
            for peer in overlay.active:
                if peer != sender:
                    overlay.send(peer, msg.Leave(source, ttl, message.proof))
        if was_neighbor:
            self._replace_link(source, now)


def _comes_over_links(sender: PeerId, message: msg.Message) -> bool:
    """Whether only neighbours send this: a walk, except the first step of a JOIN's."""
    if isinstance(message, msg.Join):
        return message.peer != sender
    return isinstance(message, msg.Shuffle | msg.ForwardJoin)


class RateLimiter:
    """A token bucket for each kind of message and peer; those that are full are forgotten."""

    __slots__ = ("_buckets",)

    def __init__(self) -> None:
        self._buckets: dict[Rate, TokenBuckets[tuple[type, PeerId]]] = {}

    def __len__(self) -> int:
        return max(map(len, self._buckets.values()), default=0)

    def allows(self, peer: PeerId, message: msg.Message, now: Time) -> bool:
        """Whether `message` from `peer` may be acted on now; it counts if so."""
        kind = type(message)
        limit = LIMITS.get(kind)
        if isinstance(message, msg.Neighbor) and message.role is msg.NeighborRole.REQUEST:
            limit = REQUEST_LIMIT
        if limit is None:
            return True
        buckets = self._buckets.get(limit)
        if buckets is None:
            buckets = self._buckets[limit] = TokenBuckets(limit, MAX_PEERS)
        buckets.forget_full(now)
        allowed = buckets.take((kind, peer), now)
        if not allowed:
            buckets.spend((kind, peer), now, 0)  # So that it isn't forgotten for others.
        return allowed


_ON_TIMER: dict[Timer, Callable[[HyParView, Any, Time], None]] = {
    Timer.JOIN: lambda node, _, now: node._join.on_timer(now),
    Timer.REQUEST: lambda node, peer, now: node._neighbors.on_refusal(peer, now),
    Timer.SHUFFLE_REPLY: lambda node, _, now: node._shuffle.on_reply_timeout(now),
    Timer.ANSWER: lambda node, peer, now: node._link_check.on_silence(peer, now),
    Timer.GROW: lambda node, _, now: node._on_grow_timer(now),
    Timer.SHUFFLE: lambda node, _, now: node._shuffle.on_timer(now),
    Timer.LINK_CHECK: lambda node, _, now: node._link_check.on_timer(now),
    Timer.PROXIMITY: lambda node, _, now: node._proximity.on_timer(now),
    Timer.SEARCH: lambda node, _, now: node._search.on_timer(now),
    Timer.RECONNECT: lambda node, _, now: node._search.on_lost_timer(now),
    Timer.STABILIZE: lambda node, _, now: node._stabilization.on_timer(now),
}
