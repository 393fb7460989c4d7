"""The membership machine: HyParView as Episub reworks it, one node's part in an overlay (E01-E21).

It passes each event and message to the procedure that it belongs to, and repairs what is lost.
NeighborUp and NeighborDown effects carry the changes of the active view to broadcast.
"""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from episub_router.protocol import events as ev
from episub_router.protocol import messages as msg
from episub_router.protocol.effects import DownReason, DropReason, Effect
from episub_router.protocol.hyparview.join import JoinProcedure
from episub_router.protocol.hyparview.join_handler import JoinHandler
from episub_router.protocol.hyparview.leave import LeaveProcedure
from episub_router.protocol.hyparview.link_check import LinkCheck
from episub_router.protocol.hyparview.neighbor_request import NeighborRequests
from episub_router.protocol.hyparview.neighbor_response import NeighborResponses
from episub_router.protocol.hyparview.passive_view_probe import PassiveViewProbe
from episub_router.protocol.hyparview.procedure import Procedure
from episub_router.protocol.hyparview.proximity import Proximity
from episub_router.protocol.hyparview.rate_limiter import RateLimiter
from episub_router.protocol.hyparview.reconnection import Reconnection
from episub_router.protocol.hyparview.rings.links import is_next_on_a_ring, make_room_on_ring
from episub_router.protocol.hyparview.rings.search import RingSearch
from episub_router.protocol.hyparview.shuffle import ShuffleProcedure
from episub_router.protocol.hyparview.stabilization import Stabilization
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.hyparview.views.active import ActiveView
from episub_router.protocol.hyparview.views.passive import PassiveView
from episub_router.protocol.params import MembershipParams
from episub_router.protocol.types import NEVER, GroupOf, PeerId, Time, ungrouped


class HyParView:
    """The overlay of the topic `name`, as seen by the node `me`.

    Drive it with `handle` and `handle_timer`; both return the effects in order.
    """

    __slots__ = (
        "_deadline",
        "_join",
        "_join_handler",
        "_leave",
        "_link_check",
        "_name",
        "_passive_view_probe",
        "_periodic",
        "_proximity",
        "_rate_limiter",
        "_reconnection",
        "_requests",
        "_responses",
        "_rings",
        "_shuffle",
        "_state",
        "joined",
    )

    def __init__(
        self,
        me: PeerId,
        name: str,
        params: MembershipParams,
        rng: Random,
        group_of: GroupOf = ungrouped,
        source_trees: bool = True,
    ) -> None:
        self._name = name
        self._state = state = OverlayState(me, params, rng, group_of, source_trees, name)
        self._rate_limiter = RateLimiter()
        self._join = JoinProcedure(state)
        self._join_handler = JoinHandler(state)
        self._responses = NeighborResponses(state)
        self._leave = LeaveProcedure(state)
        self._requests = NeighborRequests(state, self._rejoin_if_alone)
        self._shuffle = ShuffleProcedure(state)
        self._link_check = LinkCheck(state, self._replace_failed)
        self._proximity = Proximity(state)
        self._passive_view_probe = PassiveViewProbe(state, name)
        self._reconnection = Reconnection(state, self._join.contacts)
        self._rings = RingSearch(state, self._join.contacts)
        self._periodic: tuple[Procedure, ...] = (
            self._requests,
            self._shuffle,
            self._link_check,
            Stabilization(state),
            self._proximity,
            self._passive_view_probe,
            self._reconnection,
            *((self._rings,) if state.places is not None else ()),
        )
        """What runs as long as this node is in the overlay, in the order of starting and firing."""
        self._deadline: Time = NEVER
        self.joined = False

    @property
    def active(self) -> ActiveView:
        """The active view, to look at."""
        return self._state.active

    @property
    def passive(self) -> PassiveView:
        """The passive view, to look at."""
        return self._state.passive

    @property
    def joining(self) -> bool:
        """Whether the join procedure is in progress."""
        return self._join.in_progress

    def rtt_of(self, peer: PeerId) -> float | None:
        """The smoothed RTT of the neighbour `peer` in seconds; None while it is unknown."""
        link = self._state.active.get(peer)
        return None if link is None or link.rtt is None else link.rtt.mean

    def note_activity(self, peer: PeerId, now: Time) -> bool:
        """Note a broadcast message from `peer`; False if it isn't a neighbour (E12)."""
        link = self._state.active.get(peer)
        if link is None:
            return False
        link.last_activity = now
        return True

    def suspect(self, peers: Iterable[PeerId], now: Time) -> list[Effect]:
        """Others have announced what these neighbours should have sent: are they there (E15)?"""
        if self.joined:
            for peer in peers:
                self._link_check.suspect(peer, now)
        return self._finish()

    def ban(self, peer: PeerId, until: Time, now: Time) -> list[Effect]:
        """End the link to `peer`, and have nothing to do with it `until` then."""
        was_neighbor = peer in self._state.active
        self._state.ban(peer, until)
        if was_neighbor and self.joined:
            self._replace_links([peer], now)
        return self._finish()

    def is_banned(self, peer: PeerId, now: Time) -> bool:
        """Whether `peer` is banned at `now`."""
        return self._state.is_banned(peer, now)

    def on_non_neighbor(self, peer: PeerId, now: Time) -> list[Effect]:
        """A broadcast message came from `peer`, which isn't a neighbour: notify it (E12)."""
        if self.joined:
            self._link_check.on_non_neighbor(peer, now)
        return self._finish()

    def handle(self, event: ev.MembershipEvent, now: Time) -> list[Effect]:
        """Act on `event` at `now`."""
        if isinstance(event, ev.Received):
            self._on_received(event.peer, event.message, now)
        elif isinstance(event, ev.RttMeasured):
            self._on_rtt(event, now)
        elif isinstance(event, ev.Connected):
            self._state.on_connected(event.peer, now, event.probed)
        elif isinstance(event, ev.DialFailed):
            self._on_dial_failed(event, now)
        elif isinstance(event, ev.PeerDown):
            self._on_peer_down(event, now)
        elif isinstance(event, ev.Silent) and self.joined:
            self._link_check.suspect(event.peer, now)
        elif isinstance(event, ev.NeighborQueried):
            self._link_check.query(event.peer)
        elif isinstance(event, ev.ContactsFound):
            self._on_contacts(event, now)
        elif isinstance(event, ev.JoinOverlay):
            self._on_join_overlay(event, now)
        elif isinstance(event, ev.LeaveOverlay):
            self._on_leave_overlay(event)
        return self._finish()

    def next_deadline(self) -> Time:
        """When `handle_timer` is next due; infinity while nothing is waited for."""
        return self._deadline

    def handle_timer(self, now: Time) -> list[Effect]:
        """Do what is due at `now`; calling it early or late does no harm."""
        if self._join.deadline <= now:
            self._join.fire(now)
        for procedure in self._periodic:
            if procedure.deadline <= now:
                procedure.fire(now)
        return self._finish()

    def _finish(self) -> list[Effect]:
        deadline = self._join.deadline
        for procedure in self._periodic:
            if procedure.deadline < deadline:
                deadline = procedure.deadline
        self._deadline = deadline
        return self._state.take_effects()

    # Repair

    def _replace_failed(self, peers: list[PeerId], now: Time) -> None:
        """The links to `peers` have failed: replace them now, and try the peers again later."""
        for peer in peers:
            self._reconnection.on_link_failed(peer)
        self._replace_links(peers, now)

    def _replace_links(self, peers: list[PeerId], now: Time) -> None:
        self._requests.on_link_lost(now)
        self._rings.on_links_lost(peers, now)
        self._passive_view_probe.on_link_lost(now)
        self._rejoin_if_alone(now)

    def _rejoin_if_alone(self, now: Time) -> None:
        if not len(self._state.active) and not self._requests.in_progress:
            self._join.start(now)

    # Events

    def _on_join_overlay(self, event: ev.JoinOverlay, now: Time) -> None:
        self._join.add_contacts(event.contacts)
        if not self.joined:
            self.joined = True
            for procedure in self._periodic:
                procedure.start(now)
        self._join.start(now)

    def _on_contacts(self, event: ev.ContactsFound, now: Time) -> None:
        self._join.add_contacts(event.contacts)
        if not self.joined:
            return
        for contact in event.contacts:
            if len(self._state.passive) < self._state.passive.size:
                self._state.remember(contact)
        if not len(self._state.active):
            self._join.start(now)

    def _on_leave_overlay(self, event: ev.LeaveOverlay) -> None:
        self.joined = False
        self._leave.leave(event.proof)
        for procedure in self._periodic:
            procedure.stop()
        self._responses.stop()
        self._join.stop()
        self._state.clear()

    def _on_dial_failed(self, event: ev.DialFailed, now: Time) -> None:
        if self._state.is_connected(event.peer):
            return  # It dialled us in the meantime.
        self._state.passive.remove(event.peer)
        self._state.on_disconnected(event.peer, now)
        if self.joined and not self._join.in_progress:
            self._requests.ask_others(now)

    def _on_peer_down(self, event: ev.PeerDown, now: Time) -> None:
        """E15: a lost connection ends the link at once."""
        state, peer = self._state, event.peer
        state.on_disconnected(peer, now)
        self._responses.on_peer_down(peer)
        self._shuffle.on_peer_down(peer)
        self._proximity.on_refusal(peer)
        self._rings.on_refusal(peer, now)
        self._requests.on_refusal(peer, now)
        if peer in state.active:
            state.drop_link(peer, DownReason.FAILED, notify=False, remember=False)
            self._replace_failed([peer], now)

    def _on_rtt(self, event: ev.RttMeasured, now: Time) -> None:
        self._state.update_rtt(event.peer, event.rtt)
        self._passive_view_probe.on_rtt(event.peer)
        self._responses.on_rtt(event.peer, event.rtt, now)

    # Messages

    def _on_received(self, sender: PeerId, message: msg.Message, now: Time) -> None:
        state = self._state
        # A peer that reached us can be answered before its connection is reported.
        state.on_connected(sender, now)
        if not self.joined:
            state.drop(sender, DropReason.NOT_JOINED)
        elif state.is_banned(sender, now):
            state.drop(sender, DropReason.FROM_BANNED)
            if not isinstance(message, msg.Disconnect):
                state.send(sender, msg.Disconnect())
        elif not self._rate_limiter.allows(sender, message, now):
            state.drop(sender, DropReason.RATE_LIMITED)
        elif sender not in state.active and _comes_over_links(sender, message):
            state.drop(sender, DropReason.NOT_NEIGHBOR)
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
            self._state.send(sender, msg.Topics((self._name,)))
        elif isinstance(message, msg.Topics):
            self._passive_view_probe.on_topics(sender, message)
        elif isinstance(message, msg.Disconnect):
            self._on_disconnect(sender, message, now)
        elif isinstance(message, msg.Join):
            self._on_join(sender, message, now)
        elif isinstance(message, msg.ForwardJoin):
            self._join_handler.on_forward_join(sender, message)
        elif isinstance(message, msg.Leave):
            self._on_leave(sender, message, now)
        elif isinstance(message, msg.GetNodes):
            self._join_handler.on_get_nodes(sender, message, now)
        elif isinstance(message, msg.Nodes):
            self._on_nodes(sender, message, now)

    def _on_nodes(self, sender: PeerId, nodes: msg.Nodes, now: Time) -> None:
        expected = self._rings.on_nodes(sender, nodes) | self._reconnection.on_nodes(sender, nodes)
        if not expected and not self._join.awaits(sender) and self._shuffle.on_nodes(sender, nodes):
            return
        if expected or self._join.on_nodes(sender, nodes, now):
            self._rings.learn((sender, *nodes.peers[: msg.MAX_NODES]), now)

    def _on_join(self, sender: PeerId, join: msg.Join, now: Time) -> None:
        self._join_handler.on_join(sender, join, now)
        if join.peer in self._state.active:
            self._requests.on_link(join.peer)
            self._rings.on_link(join.peer, now)
            self._reconnection.on_link(join.peer)

    def _on_neighbor(self, sender: PeerId, message: msg.Neighbor, now: Time) -> None:
        active = self._state.active
        size = len(active)
        if message.role is msg.NeighborRole.REQUEST:
            self._responses.on_request(sender, message, now)
        elif message.role is msg.NeighborRole.ACCEPT:
            self._on_accept(sender, message, now)
        elif message.role is msg.NeighborRole.QUERY:
            self._link_check.on_query(sender, message, now)
        else:
            self._link_check.on_list(sender, message, now)
        if sender in active:
            self._requests.on_link(sender)
            self._proximity.on_link(sender)
            self._rings.on_link(sender, now)
            self._reconnection.on_link(sender)
        if len(active) > size:
            self._join.on_link()

    def _on_accept(self, sender: PeerId, message: msg.Neighbor, now: Time) -> None:
        """NEIGHBOR as an answer, or from the end of one of our JOINs' walks (E06, E09)."""
        state = self._state
        params = state.params
        link = state.active.get(sender)
        bound = 0
        if state.open_requests.take(sender, message.nonce, now):
            # A late answer to a request of ours fills a gap.
            waiting = (
                self._requests.has_asked(sender)
                or self._proximity.has_asked(sender)
                or self._reconnection.has_rejoined(sender)
                or self._rings.has_asked(sender)
            )
            bound = params.active_bound if waiting else params.active_size
        elif self._join.is_answered(message.nonce, now):
            bound = params.active_bound if self._join.walking else params.active_size
        if link is None and bound == params.active_bound and is_next_on_a_ring(state, sender):
            make_room_on_ring(state)
        if link is not None:
            link.update(message, now)
        elif len(state.active) < bound:
            state.add_link(sender, message.kind, now, message)
        else:
            state.drop(sender, DropReason.UNSOLICITED)
            state.send(sender, msg.Disconnect())
            state.release(sender)

    def _on_disconnect(self, sender: PeerId, message: msg.Disconnect, now: Time) -> None:
        state = self._state
        if not message.alive:
            state.passive.remove(sender)
            self._reconnection.on_leave(sender)
        if sender in state.active:
            state.drop_link(sender, DownReason.ENDED, notify=False, remember=message.alive)
            self._requests.back_off(sender, now)
            self._replace_links([sender], now)
        else:
            self._proximity.on_refusal(sender)
            self._rings.on_refusal(sender, now)
            self._requests.on_refusal(sender, now)

    def _on_leave(self, sender: PeerId, message: msg.Leave, now: Time) -> None:
        self._reconnection.on_leave(message.source)
        if self._leave.on_leave(sender, message):
            self._replace_links([message.source], now)


def _comes_over_links(sender: PeerId, message: msg.Message) -> bool:
    """Whether only neighbours send this: a walk, except the first step of a JOIN's."""
    if isinstance(message, msg.Join):
        return message.peer != sender
    return isinstance(message, msg.Shuffle | msg.ForwardJoin)
