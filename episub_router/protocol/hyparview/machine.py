"""The membership machine: passes events, messages and timers to their procedures, and repairs what
is lost. NeighborUp and NeighborDown effects carry changes of the active view to broadcast."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from episub_router.protocol import events as ev
from episub_router.protocol import messages as msg
from episub_router.protocol.effects import DownReason, DropReason, Effect
from episub_router.protocol.hyparview.join import JoinProcedure, Reconnection
from episub_router.protocol.hyparview.join_handler import JoinHandler
from episub_router.protocol.hyparview.link_check import LinkCheck
from episub_router.protocol.hyparview.neighbor import LinkPurpose, Neighbors, Stabilization
from episub_router.protocol.hyparview.overlay import Overlay, Timer
from episub_router.protocol.hyparview.proximity import Proximity
from episub_router.protocol.hyparview.rate_limits import RateLimiter
from episub_router.protocol.hyparview.rings import RingSearch
from episub_router.protocol.hyparview.shuffle import ShuffleProcedure
from episub_router.protocol.params import MembershipParams
from episub_router.protocol.types import GroupOf, PeerId, Time, ungrouped

LEAVE_TTL = 3
"""Hops of a LEAVE. Chosen: it reaches the neighbours of the leaver's neighbours."""


class HyParView:
    """The overlay of the topic `name`, as seen by the node `me`.

    Drive it with `handle` and `handle_timer`; both return the effects in order.
    """

    __slots__ = (
        "_join", "_join_handler", "_link_check", "_name", "_neighbors", "_overlay", "_proximity",
        "_rate_limiter", "_reconnection", "_rings", "_shuffle", "_stabilization", "active",
        "joined", "passive",
    )  # fmt: skip

    def __init__(
        self, me: PeerId, name: str, params: MembershipParams, rng: Random,
        group_of: GroupOf = ungrouped,
    ) -> None:  # fmt: skip
        self._name = name
        self._overlay = overlay = Overlay(me, name, params, rng, group_of)
        self.active = overlay.active
        self.passive = overlay.passive
        self._rate_limiter = RateLimiter()
        self._join = JoinProcedure(overlay)
        self._join_handler = JoinHandler(overlay)
        self._neighbors = Neighbors(overlay, self._on_outcome)
        self._rings = RingSearch(overlay, self._join, self._neighbors)
        self._reconnection = Reconnection(overlay, self._join, self._neighbors)
        self._link_check = LinkCheck(overlay, self._replace_failed)
        self._stabilization = Stabilization(overlay)
        self._proximity = Proximity(overlay, name, self._neighbors.ask_near)
        self._shuffle = ShuffleProcedure(overlay)
        self.joined = False

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
        self._join_handler.forget(peer)
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
        _ON_EVENT[type(event)](self, event, now)
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

    def _on_join_overlay(self, event: ev.JoinOverlay, now: Time) -> None:
        self._join.add_contacts(event.contacts)
        if not self.joined:
            self.joined = True
            self._neighbors.start(now)
            self._shuffle.start(now)
            self._link_check.start(now)
            self._proximity.start(now)
            self._reconnection.start(now)
            self._rings.start(now)
        self._join.start(now)

    def _on_contacts(self, event: ev.ContactsFound, now: Time) -> None:
        self._join.add_contacts(event.contacts)
        if not self.joined:
            return
        for contact in event.contacts:
            if len(self.passive) < self.passive.size:
                self._overlay.remember(contact)
        if not len(self.active):
            self._join.start(now)

    def _on_leave_overlay(self, event: ev.LeaveOverlay, now: Time) -> None:
        """E14: end all links, with LEAVE if there is a proof that it is ours, else DISCONNECT."""
        overlay = self._overlay
        self.joined = False
        farewell: msg.Message = msg.Disconnect(alive=False)
        if event.proof:
            farewell = msg.Leave(overlay.me, LEAVE_TTL, event.proof)
        for peer in list(self.active):
            overlay.send(peer, farewell)
            overlay.drop_link(peer, DownReason.LEFT, notify=False, remember=False)
        self._join.clear()
        self._join_handler.clear()
        self._neighbors.clear()
        self._rings.clear()
        self._reconnection.clear()
        self._link_check.clear()
        self._proximity.clear()
        self._shuffle.clear()
        overlay.clear()

    def _on_connected(self, peer: PeerId, now: Time, probed: bool | None = None) -> None:
        self._overlay.on_connected(peer, now, probed)
        self._note_link(peer, now)

    def _on_dial_failed(self, event: ev.DialFailed, now: Time) -> None:
        if not self._overlay.is_connected(event.peer):  # It may have dialled us in the meantime.
            self.passive.remove(event.peer)
            self._overlay.on_disconnected(event.peer, now)

    def _on_peer_down(self, event: ev.PeerDown, now: Time) -> None:
        """E15: a lost connection ends the link at once."""
        peer = event.peer
        self._overlay.on_disconnected(peer, now)
        self._shuffle.on_peer_down(peer)
        self._neighbors.on_peer_down(peer, now)
        if peer in self.active:
            self._overlay.drop_link(peer, DownReason.FAILED, notify=False, remember=False)
            self._replace_failed(peer, now)

    def _on_silent(self, event: ev.Silent, now: Time) -> None:
        if self.joined:
            self._link_check.doubt(event.peer, 1, now)

    def _on_queried(self, event: ev.NeighborQueried, now: Time) -> None:
        link = self.active.get(event.peer)
        if link is not None:
            self._overlay.query(event.peer, link)

    def _update_rtt(self, peer: PeerId, rtt: float | None) -> None:
        link = self.active.get(peer)
        if link is None:
            self.passive.update_rtt(peer, rtt)
        else:
            link.update_rtt(rtt)

    def _on_rtt(self, event: ev.RttMeasured, now: Time) -> None:
        peer = event.peer
        self._proximity.on_rtt(peer, event.rtt)
        self._update_rtt(peer, event.rtt)
        if self._neighbors.on_rtt(peer, event.rtt, now):
            self._proximity.on_change(now)
        self._note_link(peer, now)

    # Links

    def _note_link(self, peer: PeerId, now: Time) -> None:
        """`peer` may be a new neighbour."""
        if peer in self.active:
            self._neighbors.on_link(peer, now)
            self._reconnection.forget(peer)
            self._join.on_link()
            self._stabilization.on_change(now)

    def _on_outcome(self, peer: PeerId, purpose: LinkPurpose, accepted: bool, now: Time) -> bool:
        """A request has ended; returns whether the connection is still needed."""
        if purpose is LinkPurpose.RING:
            return self._rings.on_outcome(peer, accepted, now)
        if purpose is LinkPurpose.NEAR:
            self._proximity.on_outcome(peer, accepted, now)
        elif not accepted and self._overlay.is_in_need and not self._join.in_progress:
            self._neighbors.grow(now)
            self._rejoin_if_alone(now)
        return False

    def _replace_failed(self, peer: PeerId, now: Time) -> None:
        """The link to `peer` has failed: replace it now, and try the peer again later."""
        self._reconnection.on_link_failed(peer, now)
        self._shuffle.on_link_failed(now)
        self._replace_link(peer, now)

    def _replace_link(self, peer: PeerId, now: Time) -> None:
        self._rings.on_link_lost(peer, now)
        self._neighbors.on_link_lost(now)
        self._proximity.on_change(now)
        self._rejoin_if_alone(now)

    def _rejoin_if_alone(self, now: Time) -> None:
        if not len(self.active) and not self._neighbors.requests:
            self._join.start(now)

    # Messages

    def _on_received(self, event: ev.Received, now: Time) -> None:
        overlay, sender, message = self._overlay, event.peer, event.message
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
        elif type(message) in _ON_MESSAGE:
            _ON_MESSAGE[type(message)](self, sender, message, now)

    def _on_join(self, sender: PeerId, message: msg.Join, now: Time) -> None:
        self._join_handler.on_join(sender, message, now)
        self._note_link(message.peer, now)

    def _on_neighbor(self, sender: PeerId, message: msg.Neighbor, now: Time) -> None:
        if message.role is msg.NeighborRole.REQUEST:
            self._neighbors.on_request(sender, message, now)
        elif message.role is msg.NeighborRole.ACCEPT:
            self._neighbors.on_accept(sender, message, now < self._join.open_until, now)
        elif message.role is msg.NeighborRole.QUERY:
            self._link_check.on_query(sender, message, now)
        else:
            self._link_check.on_list(sender, message, now)
        self._note_link(sender, now)

    def _on_nodes(self, sender: PeerId, nodes: msg.Nodes, now: Time) -> None:
        if self._join.on_nodes(sender, nodes, now):
            self._rings.learn((sender, *nodes.peers[: msg.MAX_NODES]), now)
            if not self._join.in_progress and sender not in self._neighbors.requests:
                self._overlay.release(sender)
        elif not self._shuffle.on_nodes(sender, nodes):
            self._overlay.drop(sender, DropReason.UNSOLICITED)

    def _on_disconnect(self, sender: PeerId, message: msg.Disconnect, now: Time) -> None:
        overlay = self._overlay
        if not message.alive:
            overlay.passive.remove(sender)
            self._reconnection.forget(sender)
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
        if message.ttl < 0:
            overlay.drop(sender, DropReason.TTL_INVALID)
            return
        self._reconnection.forget(source)
        was_neighbor = source in overlay.active
        overlay.drop_link(source, DownReason.LEFT, notify=False, remember=False)
        # Anybody can make an identity that leaves: a stranger's LEAVE ends here.
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


_ON_EVENT: dict[type, Callable[[HyParView, Any, Time], None]] = {
    ev.Received: HyParView._on_received,
    ev.RttMeasured: HyParView._on_rtt,
    ev.Connected: lambda node, event, now: node._on_connected(event.peer, now, event.probed),
    ev.DialFailed: HyParView._on_dial_failed,
    ev.PeerDown: HyParView._on_peer_down,
    ev.Silent: HyParView._on_silent,
    ev.NeighborQueried: HyParView._on_queried,
    ev.ContactsFound: HyParView._on_contacts,
    ev.JoinOverlay: HyParView._on_join_overlay,
    ev.LeaveOverlay: HyParView._on_leave_overlay,
}

_ON_TIMER: dict[Timer, Callable[[HyParView, PeerId, Time], None]] = {
    Timer.JOIN: lambda node, _, now: node._join.on_timer(now),
    Timer.GROW: lambda node, _, now: node._on_grow_timer(now),
    Timer.REQUEST: lambda node, peer, now: node._neighbors.on_timeout(peer, now),
    Timer.SHUFFLE: lambda node, _, now: node._shuffle.on_timer(now),
    Timer.SHUFFLE_REPLY: lambda node, _, now: node._shuffle.on_reply_timeout(now),
    Timer.LINK_CHECK: lambda node, _, now: node._link_check.on_timer(now),
    Timer.ANSWER: lambda node, peer, now: node._link_check.on_silence(peer, now),
    Timer.STABILIZE: lambda node, _, now: node._stabilization.on_timer(now),
    Timer.PROXIMITY: lambda node, _, now: node._proximity.on_timer(now),
    Timer.RECONNECT: lambda node, _, now: node._reconnection.on_timer(now),
    Timer.CONTACT: lambda node, _, now: node._reconnection.on_contact_timer(now),
    Timer.RING_SEARCH: lambda node, _, now: node._rings.on_timer(now),
}

_ON_MESSAGE: dict[type, Callable[[HyParView, PeerId, Any, Time], None]] = {
    msg.Neighbor: HyParView._on_neighbor,
    msg.Shuffle: lambda node, sender, it, now: node._shuffle.on_shuffle(sender, it, now),
    msg.ShuffleReply: lambda node, sender, it, _: node._shuffle.on_reply(sender, it),
    msg.GetTopics: lambda node, sender, *_: node._overlay.send(sender, msg.Topics((node._name,))),
    msg.Topics: lambda node, sender, it, _: node._proximity.on_topics(sender, it),
    msg.Disconnect: HyParView._on_disconnect,
    msg.Join: HyParView._on_join,
    msg.ForwardJoin: lambda node, sender, it, _: node._join_handler.on_forward_join(sender, it),
    msg.Leave: HyParView._on_leave,
    msg.GetNodes: lambda node, sender, it, now: node._join_handler.on_get_nodes(sender, it, now),
    msg.Nodes: HyParView._on_nodes,
}
