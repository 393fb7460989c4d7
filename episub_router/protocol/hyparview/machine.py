"""The membership machine: HyParView as Episub reworks it, one node's part in an overlay (E01-E21).

It passes each event, message and timer to the procedure that it belongs to, and repairs what is
lost. NeighborUp and NeighborDown effects carry the changes of the active view to broadcast.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from episub_router.protocol import events as ev
from episub_router.protocol import messages as msg
from episub_router.protocol.effects import DownReason, DropReason, Effect
from episub_router.protocol.hyparview.active_view import ActiveView
from episub_router.protocol.hyparview.join import JoinProcedure
from episub_router.protocol.hyparview.join_handler import JoinHandler
from episub_router.protocol.hyparview.link_check import LinkCheck
from episub_router.protocol.hyparview.neighbor import REFUSED_BACKOFF, LinkPurpose, Neighbors
from episub_router.protocol.hyparview.overlay import Overlay, Timer
from episub_router.protocol.hyparview.passive_view import PassiveView
from episub_router.protocol.hyparview.proximity import Proximity
from episub_router.protocol.hyparview.rate_limits import RateLimiter
from episub_router.protocol.hyparview.reconnection import Reconnection
from episub_router.protocol.hyparview.rings import RingSearch
from episub_router.protocol.hyparview.shuffle import ShuffleProcedure
from episub_router.protocol.hyparview.stabilization import Stabilization
from episub_router.protocol.params import MembershipParams
from episub_router.protocol.types import GroupOf, PeerId, Time, ungrouped

LEAVE_TTL = 3
"""Hops of a LEAVE. Chosen: it reaches the neighbours of the leaver's neighbours."""


class HyParView:
    """The overlay of the topic `name`, as seen by the node `me`.

    Drive it with `handle` and `handle_timer`; both return the effects in order.
    """

    __slots__ = (
        "_join",
        "_join_handler",
        "_link_check",
        "_name",
        "_neighbors",
        "_overlay",
        "_proximity",
        "_rate_limiter",
        "_reconnection",
        "_rings",
        "_shuffle",
        "_stabilization",
        "joined",
    )

    def __init__(
        self,
        me: PeerId,
        name: str,
        params: MembershipParams,
        rng: Random,
        group_of: GroupOf = ungrouped,
    ) -> None:
        self._name = name
        self._overlay = overlay = Overlay(me, name, params, rng, group_of)
        self._rate_limiter = RateLimiter()
        self._join = JoinProcedure(overlay)
        self._join_handler = JoinHandler(overlay)
        self._neighbors = Neighbors(overlay, self._on_outcome)
        self._rings = RingSearch(overlay, self._join, self._neighbors)
        self._reconnection = Reconnection(overlay, self._join, self._neighbors)
        self._link_check = LinkCheck(overlay, self._replace_failed)
        self._stabilization = Stabilization(overlay)
        self._proximity = Proximity(overlay, name, self._ask_near)
        self._shuffle = ShuffleProcedure(overlay)
        self.joined = False

    @property
    def active(self) -> ActiveView:
        """The active view, read-only."""
        return self._overlay.active

    @property
    def passive(self) -> PassiveView:
        """The passive view, read-only."""
        return self._overlay.passive

    @property
    def joining(self) -> bool:
        """Whether the join procedure is in progress."""
        return self._join.in_progress

    def rtt_of(self, peer: PeerId) -> float | None:
        """The smoothed RTT of the neighbour `peer` in seconds; None while it is unknown."""
        link = self._overlay.active.get(peer)
        return None if link is None or link.rtt is None else link.rtt.mean

    def note_activity(self, peer: PeerId, now: Time) -> bool:
        """Note a broadcast message from `peer`; False if it isn't a neighbour (E12)."""
        link = self._overlay.active.get(peer)
        if link is None:
            return False
        link.last_activity = now
        return True

    def suspect(self, peers: Iterable[PeerId], now: Time) -> list[Effect]:
        """Others have announced what these neighbours should have sent: are they there (E15)?"""
        if self.joined:
            for peer in peers:
                self._link_check.suspect(peer, now)
        return self._overlay.take_effects()

    def ban(self, peer: PeerId, until: Time, now: Time) -> list[Effect]:
        """End the link to `peer`, and have nothing to do with it `until` then."""
        was_neighbor = peer in self._overlay.active
        self._overlay.ban(peer, until)
        self._join_handler.forget(peer)
        if was_neighbor and self.joined:
            self._replace_link(peer, now)
        return self._overlay.take_effects()

    def is_banned(self, peer: PeerId, now: Time) -> bool:
        """Whether `peer` is banned at `now`."""
        return self._overlay.is_banned(peer, now)

    def on_non_neighbor(self, peer: PeerId, now: Time) -> list[Effect]:
        """A broadcast message came from `peer`, which isn't a neighbour: notify it (E12)."""
        if self.joined:
            self._link_check.on_non_neighbor(peer, now)
        return self._overlay.take_effects()

    def adopt_link(self, peer: PeerId, said: msg.Neighbor, rtt: float, now: Time) -> None:
        """Make `peer`, which is connected and whose round trips take `rtt` seconds, a neighbour
        with what it `said` about itself, for drivers that begin with an overlay. The effects come
        with those of the next event."""
        self._overlay.add_link(peer, said.kind, now, said)
        self._update_rtt(peer, rtt)

    def adopt_peers(self, peers: Iterable[PeerId]) -> None:
        """Put `peers` into the passive view, for such drivers."""
        for peer in peers:
            self._overlay.remember(peer)

    # Events and timers

    def handle(self, event: ev.MembershipEvent, now: Time) -> list[Effect]:
        """Act on `event` at `now`."""
        if isinstance(event, ev.Received):
            self._on_received(event.peer, event.message, now)
        elif isinstance(event, ev.RttMeasured):
            self._on_rtt(event, now)
        elif isinstance(event, ev.Connected):
            self._on_connected(event.peer, now, event.probed)
        elif isinstance(event, ev.DialFailed):
            self._on_dial_failed(event.peer, now)
        elif isinstance(event, ev.PeerDown):
            self._on_peer_down(event.peer, now)
        elif isinstance(event, ev.Silent) and self.joined:
            self._link_check.suspect(event.peer, now)
        elif isinstance(event, ev.NeighborQueried):
            link = self._overlay.active.get(event.peer)
            if link is not None:
                self._overlay.query(event.peer, link)
        elif isinstance(event, ev.ContactsFound):
            self._on_contacts(event, now)
        elif isinstance(event, ev.JoinOverlay):
            self._on_join_overlay(event, now)
        elif isinstance(event, ev.LeaveOverlay):
            self._on_leave_overlay(event)
        return self._overlay.take_effects()

    def next_deadline(self) -> Time:
        """When `handle_timer` is next due; infinity while nothing is waited for."""
        return self._overlay.timers.deadline

    def handle_timer(self, now: Time) -> list[Effect]:
        """Do what is due at `now`; calling it early or late does no harm."""
        for timer, peer in self._overlay.timers.pop_due(now):
            self._on_timer(timer, peer, now)
        return self._overlay.take_effects()

    def _on_timer(self, timer: Timer, peer: PeerId, now: Time) -> None:
        if timer is Timer.REQUEST:
            self._neighbors.on_timeout(peer, now)
        elif timer is Timer.ANSWER:
            self._link_check.on_silence(peer, now)
        elif timer is Timer.LINK_CHECK:
            self._link_check.on_timer(now)
        elif timer is Timer.PROXIMITY:
            self._proximity.on_timer(now)
        elif timer is Timer.GROW:
            self._neighbors.on_timer(now)
            self._rejoin_if_alone(now)
        elif timer is Timer.RECONNECT:
            self._reconnection.on_timer(now)
        elif timer is Timer.CONTACT:
            self._reconnection.on_contact_timer(now)
        elif timer is Timer.SHUFFLE:
            self._shuffle.on_timer(now)
        elif timer is Timer.SHUFFLE_REPLY:
            self._shuffle.on_reply_timeout(now)
        elif timer is Timer.STABILIZE:
            self._stabilization.on_timer(now)
        elif timer is Timer.RING_SEARCH:
            self._rings.on_timer(now)
        else:
            self._join.on_timer(now)

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
        overlay = self._overlay
        self._join.add_contacts(event.contacts)
        if not self.joined:
            return
        for contact in event.contacts:
            if len(overlay.passive) < overlay.passive.size:
                overlay.remember(contact)
        if not len(overlay.active):
            self._join.start(now)

    def _on_leave_overlay(self, event: ev.LeaveOverlay) -> None:
        """E14: end all links, with LEAVE if there is a proof that it is ours, else DISCONNECT."""
        overlay = self._overlay
        self.joined = False
        farewell: msg.Message = msg.Disconnect(alive=False)
        if event.proof:
            farewell = msg.Leave(overlay.me, LEAVE_TTL, event.proof)
        for peer in list(overlay.active):
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

    def _on_dial_failed(self, peer: PeerId, now: Time) -> None:
        if not self._overlay.is_connected(peer):  # It may have dialled us in the meantime.
            self._overlay.passive.remove(peer)
            self._overlay.on_disconnected(peer, now)

    def _on_peer_down(self, peer: PeerId, now: Time) -> None:
        """E15: a lost connection ends the link at once."""
        self._overlay.on_disconnected(peer, now)
        self._shuffle.on_peer_down(peer)
        self._neighbors.on_peer_down(peer, now)
        if peer in self._overlay.active:
            self._overlay.drop_link(peer, DownReason.FAILED, notify=False, remember=False)
            self._replace_failed(peer, now)

    def _update_rtt(self, peer: PeerId, rtt: float | None) -> None:
        link = self._overlay.active.get(peer)
        if link is None:
            self._overlay.passive.update_rtt(peer, rtt)
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
        if peer in self._overlay.active:
            self._neighbors.on_link(peer, now)
            self._reconnection.forget(peer)
            self._join.on_link()
            self._stabilization.on_change(now)

    def _ask_near(self, peer: PeerId, now: Time) -> bool:
        may_ask = not self._neighbors.has_refused(peer, REFUSED_BACKOFF, now)
        if may_ask:
            self._neighbors.ask(peer, LinkPurpose.NEAR, msg.LinkKind.NEAR, now)
        return may_ask

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
        if not len(self._overlay.active) and not self._neighbors.in_progress:
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
            self._dispatch(sender, message, now)

    def _dispatch(self, sender: PeerId, message: msg.Message, now: Time) -> None:
        if isinstance(message, msg.Neighbor):
            self._on_neighbor(sender, message, now)
        elif isinstance(message, msg.Shuffle):
            self._shuffle.on_shuffle(sender, message, now)
        elif isinstance(message, msg.ShuffleReply):
            self._shuffle.on_reply(sender, message)
        elif isinstance(message, msg.GetTopics):
            self._overlay.send(sender, msg.Topics((self._name,)))
        elif isinstance(message, msg.Topics):
            self._proximity.on_topics(sender, message)
        elif isinstance(message, msg.Disconnect):
            self._on_disconnect(sender, message, now)
        elif isinstance(message, msg.Join):
            self._join_handler.on_join(sender, message, now)
            self._note_link(message.peer, now)
        elif isinstance(message, msg.ForwardJoin):
            self._join_handler.on_forward_join(sender, message)
        elif isinstance(message, msg.Leave):
            self._on_leave(sender, message, now)
        elif isinstance(message, msg.GetNodes):
            self._join_handler.on_get_nodes(sender, message, now)
        elif isinstance(message, msg.Nodes):
            self._on_nodes(sender, message, now)

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
            if not self._join.in_progress and not self._neighbors.has_asked(sender):
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
        each LEAVE only once, and only if its source has signed it."""
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
