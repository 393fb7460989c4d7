"""The membership machine: one node's part in one topic's overlay (E01-E19).

It owns the views and hands every event to the procedure that it belongs to. What is told to
the broadcast machine leaves as NeighborUp and NeighborDown effects.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

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
from episub_router.protocol.hyparview.proximity import Proximity
from episub_router.protocol.hyparview.rate_limiter import RateLimiter
from episub_router.protocol.hyparview.reconnection import Reconnection
from episub_router.protocol.hyparview.shuffle import ShuffleProcedure
from episub_router.protocol.hyparview.stabilization import Stabilization
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.hyparview.views.active import ActiveView
from episub_router.protocol.hyparview.views.passive import PassiveView
from episub_router.protocol.hyparview.views.sizing import Sizing
from episub_router.protocol.params import MembershipParams
from episub_router.protocol.types import NEVER, GroupOf, PeerId, Time, ungrouped


class HyParView:
    """HyParView as Episub reworks it, for the topic `name`.

    Drive it with `handle` and `handle_timer`; both return the effects in order.
    """

    __slots__ = (
        "_deadline",
        "_join",
        "_join_handler",
        "_leave",
        "_link_check",
        "_on_event",
        "_on_message",
        "_passive_view_probe",
        "_proximity",
        "_rate_limiter",
        "_reconnection",
        "_requests",
        "_responses",
        "_shuffle",
        "_sizing",
        "_stabilization",
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
    ) -> None:
        self._state = overlay = OverlayState(me, params, rng, group_of)
        self._rate_limiter = RateLimiter(params)
        self._join = JoinProcedure(overlay)
        self._join_handler = JoinHandler(overlay)
        self._requests = NeighborRequests(overlay)
        self._responses = NeighborResponses(overlay)
        self._sizing = Sizing(overlay)
        self._shuffle = ShuffleProcedure(overlay, self._sizing.saw)
        self._link_check = LinkCheck(overlay)
        self._stabilization = Stabilization(overlay)
        self._proximity = Proximity(overlay)
        self._passive_view_probe = PassiveViewProbe(overlay, name)
        self._reconnection = Reconnection(overlay)
        self._leave = LeaveProcedure(overlay)
        self._deadline: Time = NEVER
        self.joined = False
        self._on_event: dict[type, Callable[[Any, Time], None]] = {
            ev.Received: self._on_received,
            ev.Connected: self._on_connected,
            ev.DialFailed: self._on_dial_failed,
            ev.PeerDown: self._on_peer_down,
            ev.RttMeasured: self._on_rtt,
            ev.JoinOverlay: self._on_join_overlay,
            ev.ContactsFound: self._on_contacts,
            ev.LeaveOverlay: self._on_leave_overlay,
        }
        self._on_message: dict[type, Callable[[PeerId, Any, Time], None]] = {
            msg.GetNodes: lambda peer, _, now: self._join_handler.on_get_nodes(peer),
            msg.Nodes: self._on_nodes,
            msg.GetTopics: lambda peer, _, now: overlay.send(peer, msg.Topics((name,))),
            msg.Topics: lambda peer, m, now: self._passive_view_probe.on_topics(peer, m),
            msg.Join: self._on_join,
            msg.ForwardJoin: lambda peer, m, now: self._join_handler.on_forward_join(peer, m),
            msg.Neighbor: self._on_neighbor,
            msg.Disconnect: self._on_disconnect,
            msg.Leave: self._on_leave,
            msg.Shuffle: self._shuffle.on_shuffle,
            msg.ShuffleReply: lambda peer, m, now: self._shuffle.on_reply(peer, m),
        }

    @property
    def active(self) -> ActiveView:
        """The active view, to look at."""
        return self._state.active

    @property
    def passive(self) -> PassiveView:
        """The passive view, to look at."""
        return self._state.passive

    @property
    def estimated_size(self) -> float | None:
        """Nodes in the overlay as far as can be told; None with dynamic sizing off, or as long
        as too little was seen."""
        return self._sizing.estimate

    @property
    def joining(self) -> bool:
        """Whether the join procedure is under way."""
        return self._join.under_way

    def handle(self, event: ev.Event, now: Time) -> list[Effect]:
        """Act on `event` at `now`; raises KeyError for an event that isn't membership's."""
        self._on_event[type(event)](event, now)
        return self._finish()

    def rtt_of(self, peer: PeerId) -> float | None:
        """The smoothed RTT of the neighbour `peer` in seconds; None while it is unknown."""
        link = self._state.active.get(peer)
        return None if link is None or link.rtt is None else link.rtt.mean

    def note_activity(self, peer: PeerId, now: Time) -> bool:
        """Note a broadcast message from `peer`; False if it isn't a neighbour (E12)."""
        link = self._state.active.get(peer)
        if link is None:
            return False
        link.heard = now
        return True

    def on_non_neighbor(self, peer: PeerId, now: Time) -> list[Effect]:
        """A broadcast message came from `peer`, which isn't a neighbour: notify it (E12)."""
        if self.joined:
            self._link_check.on_stranger(peer, now)
        return self._finish()

    def next_deadline(self) -> Time:
        """When `handle_timer` is next due; infinity while nothing is waited for."""
        return self._deadline

    def handle_timer(self, now: Time) -> list[Effect]:
        """Do what is due at `now`; calling it early or late does no harm."""
        if self._join.deadline <= now:
            self._join.fire(now)
        if self._link_check.deadline <= now:
            failed = self._link_check.fire(now)
            for peer in failed:
                self._reconnection.on_lost(peer)
            if failed:
                self._replace_links(now)
        if self._requests.deadline <= now:
            self._requests.fire(now)
            self._rejoin_if_alone(now)
        if self._stabilization.deadline <= now:
            self._stabilization.fire(now)
        if self._proximity.deadline <= now:
            self._proximity.fire(now)
        if self._passive_view_probe.deadline <= now:
            self._passive_view_probe.fire(now)
        if self._reconnection.deadline <= now:
            self._reconnection.fire(now, self._join.contacts)
        if self._sizing.deadline <= now:
            self._sizing.fire(now)
        if self._shuffle.deadline <= now:
            self._shuffle.fire(now)
        return self._finish()

    def _replace_links(self, now: Time) -> None:
        self._requests.on_link_lost(now)
        self._passive_view_probe.on_link_lost(now)
        self._rejoin_if_alone(now)

    def _rejoin_if_alone(self, now: Time) -> None:
        if not len(self._state.active) and not self._requests.under_way:
            self._join.start(now)

    def _finish(self) -> list[Effect]:
        self._deadline = min(
            self._join.deadline,
            self._requests.deadline,
            self._shuffle.deadline,
            self._link_check.deadline,
            self._stabilization.deadline,
            self._proximity.deadline,
            self._passive_view_probe.deadline,
            self._reconnection.deadline,
            self._sizing.deadline,
        )
        return self._state.take_effects()

    # Events

    def _on_join_overlay(self, event: ev.JoinOverlay, now: Time) -> None:
        self._join.add_contacts(event.contacts)
        if not self.joined:
            self.joined = True
            self._requests.start(now)
            self._shuffle.start(now)
            self._link_check.start(now)
            self._stabilization.start(now)
            self._proximity.start(now)
            self._passive_view_probe.start(now)
            self._reconnection.start(now)
            self._sizing.start(now)
        self._join.start(now)

    def _on_contacts(self, event: ev.ContactsFound, now: Time) -> None:
        self._join.add_contacts(event.contacts)
        if not self.joined:
            return
        passive = self._state.passive
        for contact in event.contacts:
            if len(passive) < passive.size:
                self._state.remember(contact)
        if not len(self._state.active):
            self._join.start(now)

    def _on_leave_overlay(self, event: ev.LeaveOverlay, now: Time) -> None:
        self.joined = False
        self._leave.leave(event.proof)
        self._requests.stop()
        self._responses.stop()
        self._shuffle.stop()
        self._link_check.stop()
        self._stabilization.stop()
        self._proximity.stop()
        self._passive_view_probe.stop()
        self._reconnection.stop()
        self._sizing.stop()
        self._leave.stop()
        self._join.forget()
        self._state.forget()

    def _on_connected(self, event: ev.Connected, now: Time) -> None:
        self._state.connected(event.peer, now)

    def _on_dial_failed(self, event: ev.DialFailed, now: Time) -> None:
        if self._state.is_connected(event.peer):
            return  # It dialled us in the meantime.
        self._state.passive.remove(event.peer)
        self._state.disconnected(event.peer, now)
        if self.joined and not self._join.under_way:
            self._requests.go_on(now)

    def _on_peer_down(self, event: ev.PeerDown, now: Time) -> None:
        """E15: a lost connection ends the link at once."""
        overlay = self._state
        overlay.disconnected(event.peer, now)
        self._responses.on_peer_down(event.peer)
        self._proximity.on_refusal(event.peer)
        self._requests.on_refusal(event.peer, now)
        if event.peer in overlay.active:
            overlay.drop_link(event.peer, DownReason.FAILED, tell=False, remember=False)
            self._reconnection.on_lost(event.peer)
            self._replace_links(now)

    def _on_rtt(self, event: ev.RttMeasured, now: Time) -> None:
        if event.rtt is not None:
            link = self._state.active.get(event.peer)
            if link is not None:
                link.measured(event.rtt)
            self._state.passive.update_rtt(event.peer, event.rtt)
        else:
            self._state.unanswered(event.peer)
        self._passive_view_probe.on_rtt(event.peer)
        self._responses.on_rtt(event.peer, event.rtt, now)

    # Messages

    def _on_received(self, event: ev.Received, now: Time) -> None:
        # Whoever reached us can be answered, before its connection is reported.
        self._state.connected(event.peer, now)
        if not self.joined:
            self._state.drop(event.peer, DropReason.NOT_JOINED)
        elif not self._rate_limiter.allows(event.peer, event.message, now):
            self._state.drop(event.peer, DropReason.RATE_LIMITED)
        elif event.peer not in self._state.active and _comes_over_links(event):
            self._state.drop(event.peer, DropReason.NOT_NEIGHBOR)
            self._link_check.on_stranger(event.peer, now)
        else:
            self._on_message[type(event.message)](event.peer, event.message, now)

    def _on_nodes(self, sender: PeerId, nodes: msg.Nodes, now: Time) -> None:
        if not self._reconnection.on_nodes(sender, nodes):
            self._join.on_nodes(sender, nodes, now)

    def _on_join(self, sender: PeerId, join: msg.Join, now: Time) -> None:
        self._join_handler.on_join(sender, join, now)
        if join.peer in self._state.active:
            self._requests.on_link(join.peer)
            self._reconnection.on_link(join.peer)

    def _on_neighbor(self, sender: PeerId, message: msg.Neighbor, now: Time) -> None:
        overlay = self._state
        size = len(overlay.active)
        if message.role is msg.NeighborRole.REQUEST:
            self._responses.on_request(sender, message, now)
        elif message.role is msg.NeighborRole.ACCEPT:
            self._on_accept(sender, message, now)
        elif message.role is msg.NeighborRole.QUERY:
            self._link_check.on_query(sender, message, now)
        else:
            self._link_check.on_list(sender, message, now)
        if sender in overlay.active:
            self._requests.on_link(sender)
            self._proximity.on_link(sender)
            self._reconnection.on_link(sender)
        if len(overlay.active) > size:
            self._join.on_link()

    def _on_accept(self, sender: PeerId, message: msg.Neighbor, now: Time) -> None:
        """NEIGHBOR as an answer, or from the end of one of our JOINs' walks (E06, E09)."""
        overlay = self._state
        link = overlay.active.get(sender)
        size = len(overlay.active)
        wanted = (
            self._requests.asked(sender)
            or self._proximity.asked(sender)
            or self._reconnection.rejoined(sender)
            or self._join.walking
        )
        if link is not None:
            link.update(message, now)
        elif size < overlay.params.active_size or (wanted and size < overlay.params.active_bound):
            overlay.add_link(sender, message.kind, now, message)
        else:
            overlay.drop(sender, DropReason.UNSOLICITED)
            overlay.send(sender, msg.Disconnect())
            overlay.release(sender)

    def _on_disconnect(self, sender: PeerId, message: msg.Disconnect, now: Time) -> None:
        overlay = self._state
        if not message.alive:
            overlay.passive.remove(sender)
            self._reconnection.on_left(sender)
        if sender in overlay.active:
            overlay.drop_link(sender, DownReason.ENDED, tell=False, remember=message.alive)
            self._requests.back_off(sender, now)
            self._replace_links(now)
        else:
            self._proximity.on_refusal(sender)
            self._requests.on_refusal(sender, now)

    def _on_leave(self, sender: PeerId, message: msg.Leave, now: Time) -> None:
        self._reconnection.on_left(message.source)
        if self._leave.on_leave(sender, message):
            self._replace_links(now)


def _comes_over_links(event: ev.Received) -> bool:
    """Whether only neighbours send this: a walk, but for the first step of a JOIN's."""
    message = event.message
    if type(message) is msg.Join:
        return message.peer != event.peer
    return type(message) is msg.Shuffle or type(message) is msg.ForwardJoin
