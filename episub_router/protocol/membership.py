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
from episub_router.protocol.joining import Doorman, Joining
from episub_router.protocol.leaving import Leaving
from episub_router.protocol.limiting import Limiter
from episub_router.protocol.linkcheck import LinkCheck
from episub_router.protocol.neighboring import Asking, Granting
from episub_router.protocol.optimizing import Optimizing
from episub_router.protocol.overlay import Overlay
from episub_router.protocol.params import MembershipParams
from episub_router.protocol.passive import PassiveView
from episub_router.protocol.recontacting import Recontacting
from episub_router.protocol.shuffling import Shuffling
from episub_router.protocol.sizing import Sizing
from episub_router.protocol.stabilizing import Stabilizing
from episub_router.protocol.types import NEVER, GroupOf, PeerId, Time, ungrouped
from episub_router.protocol.upkeep import Upkeep
from episub_router.protocol.views import ActiveView


class Membership:
    """HyParView as Episub reworks it, for the topic `name`.

    Drive it with `handle` and `handle_timer`; both return the effects in order.
    """

    __slots__ = (
        "_asking",
        "_deadline",
        "_doorman",
        "_granting",
        "_joining",
        "_leaving",
        "_limiter",
        "_links",
        "_on_event",
        "_on_message",
        "_optimizing",
        "_overlay",
        "_recontacting",
        "_shuffling",
        "_sizing",
        "_stabilizing",
        "_upkeep",
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
        self._overlay = overlay = Overlay(me, params, rng, group_of)
        self._limiter = Limiter(params)
        self._joining = Joining(overlay)
        self._doorman = Doorman(overlay)
        self._asking = Asking(overlay)
        self._granting = Granting(overlay)
        self._sizing = Sizing(overlay)
        self._shuffling = Shuffling(overlay, self._sizing.saw)
        self._links = LinkCheck(overlay)
        self._stabilizing = Stabilizing(overlay)
        self._optimizing = Optimizing(overlay)
        self._upkeep = Upkeep(overlay, name)
        self._recontacting = Recontacting(overlay)
        self._leaving = Leaving(overlay)
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
            msg.GetNodes: lambda peer, _, now: self._doorman.on_get_nodes(peer),
            msg.Nodes: self._on_nodes,
            msg.GetTopics: lambda peer, _, now: overlay.send(peer, msg.Topics((name,))),
            msg.Topics: lambda peer, m, now: self._upkeep.on_topics(peer, m),
            msg.Join: self._on_join,
            msg.ForwardJoin: lambda peer, m, now: self._doorman.on_forward_join(peer, m),
            msg.Neighbor: self._on_neighbor,
            msg.Disconnect: self._on_disconnect,
            msg.Leave: self._on_leave,
            msg.Shuffle: self._shuffling.on_shuffle,
            msg.ShuffleReply: lambda peer, m, now: self._shuffling.on_reply(peer, m),
        }

    @property
    def active(self) -> ActiveView:
        """The active view, to look at."""
        return self._overlay.active

    @property
    def passive(self) -> PassiveView:
        """The passive view, to look at."""
        return self._overlay.passive

    @property
    def estimated_size(self) -> float | None:
        """Nodes in the overlay as far as can be told; None with dynamic sizing off, or as long
        as too little was seen."""
        return self._sizing.estimate

    @property
    def joining(self) -> bool:
        """Whether the join procedure is under way."""
        return self._joining.under_way

    def handle(self, event: ev.Event, now: Time) -> list[Effect]:
        """Act on `event` at `now`; raises KeyError for an event that isn't membership's."""
        self._on_event[type(event)](event, now)
        return self._finish()

    def heard(self, peer: PeerId, now: Time) -> bool:
        """Note a tree message from `peer`; False if it isn't a neighbour (E12)."""
        link = self._overlay.active.get(peer)
        if link is None:
            return False
        link.heard = now
        return True

    def stranger(self, peer: PeerId, now: Time) -> list[Effect]:
        """A tree message came from `peer`, which isn't a neighbour: put it right (E12)."""
        if self.joined:
            self._links.on_stranger(peer, now)
        return self._finish()

    def next_deadline(self) -> Time:
        """When `handle_timer` is next due; infinity while nothing is waited for."""
        return self._deadline

    def handle_timer(self, now: Time) -> list[Effect]:
        """Do what is due at `now`; calling it early or late does no harm."""
        if self._joining.deadline <= now:
            self._joining.fire(now)
        if self._links.deadline <= now:
            failed = self._links.fire(now)
            for peer in failed:
                self._recontacting.on_lost(peer)
            if failed:
                self._replace_links(now)
        if self._asking.deadline <= now:
            self._asking.fire(now)
            self._rejoin_if_alone(now)
        if self._stabilizing.deadline <= now:
            self._stabilizing.fire(now)
        if self._optimizing.deadline <= now:
            self._optimizing.fire(now)
        if self._upkeep.deadline <= now:
            self._upkeep.fire(now)
        if self._recontacting.deadline <= now:
            self._recontacting.fire(now, self._joining.contacts)
        if self._sizing.deadline <= now:
            self._sizing.fire(now)
        if self._shuffling.deadline <= now:
            self._shuffling.fire(now)
        return self._finish()

    def _replace_links(self, now: Time) -> None:
        self._asking.on_link_lost(now)
        self._upkeep.on_link_lost(now)
        self._rejoin_if_alone(now)

    def _rejoin_if_alone(self, now: Time) -> None:
        if not len(self._overlay.active) and not self._asking.under_way:
            self._joining.start(now)

    def _finish(self) -> list[Effect]:
        self._deadline = min(
            self._joining.deadline,
            self._asking.deadline,
            self._shuffling.deadline,
            self._links.deadline,
            self._stabilizing.deadline,
            self._optimizing.deadline,
            self._upkeep.deadline,
            self._recontacting.deadline,
            self._sizing.deadline,
        )
        return self._overlay.take_effects()

    # Events

    def _on_join_overlay(self, event: ev.JoinOverlay, now: Time) -> None:
        self._joining.add_contacts(event.contacts)
        if not self.joined:
            self.joined = True
            self._asking.start(now)
            self._shuffling.start(now)
            self._links.start(now)
            self._stabilizing.start(now)
            self._optimizing.start(now)
            self._upkeep.start(now)
            self._recontacting.start(now)
            self._sizing.start(now)
        self._joining.start(now)

    def _on_contacts(self, event: ev.ContactsFound, now: Time) -> None:
        self._joining.add_contacts(event.contacts)
        if not self.joined:
            return
        passive = self._overlay.passive
        for contact in event.contacts:
            if len(passive) < passive.size:
                self._overlay.remember(contact)
        if not len(self._overlay.active):
            self._joining.start(now)

    def _on_leave_overlay(self, event: ev.LeaveOverlay, now: Time) -> None:
        self.joined = False
        self._leaving.leave(event.proof)
        self._asking.stop()
        self._granting.stop()
        self._shuffling.stop()
        self._links.stop()
        self._stabilizing.stop()
        self._optimizing.stop()
        self._upkeep.stop()
        self._recontacting.stop()
        self._sizing.stop()
        self._leaving.stop()
        self._joining.forget()
        self._overlay.forget()

    def _on_connected(self, event: ev.Connected, now: Time) -> None:
        self._overlay.connected(event.peer, now)

    def _on_dial_failed(self, event: ev.DialFailed, now: Time) -> None:
        if self._overlay.is_connected(event.peer):
            return  # It dialled us in the meantime.
        self._overlay.passive.remove(event.peer)
        self._overlay.disconnected(event.peer, now)
        if self.joined and not self._joining.under_way:
            self._asking.go_on(now)

    def _on_peer_down(self, event: ev.PeerDown, now: Time) -> None:
        """E15: a lost connection ends the link at once."""
        overlay = self._overlay
        overlay.disconnected(event.peer, now)
        self._granting.on_peer_down(event.peer)
        self._optimizing.on_refusal(event.peer)
        self._asking.on_refusal(event.peer, now)
        if event.peer in overlay.active:
            overlay.drop_link(event.peer, DownReason.FAILED, tell=False, remember=False)
            self._recontacting.on_lost(event.peer)
            self._replace_links(now)

    def _on_rtt(self, event: ev.RttMeasured, now: Time) -> None:
        if event.rtt is not None:
            link = self._overlay.active.get(event.peer)
            if link is not None:
                link.measured(event.rtt)
            self._overlay.passive.update_rtt(event.peer, event.rtt)
        else:
            self._overlay.unanswered(event.peer)
        self._upkeep.on_rtt(event.peer)
        self._granting.on_rtt(event.peer, event.rtt, now)

    # Messages

    def _on_received(self, event: ev.Received, now: Time) -> None:
        # Whoever reached us can be answered, before its connection is reported.
        self._overlay.connected(event.peer, now)
        if not self.joined:
            self._overlay.drop(event.peer, DropReason.NOT_JOINED)
        elif not self._limiter.allows(event.peer, event.message, now):
            self._overlay.drop(event.peer, DropReason.RATE_LIMITED)
        elif event.peer not in self._overlay.active and _comes_over_links(event):
            self._overlay.drop(event.peer, DropReason.NOT_NEIGHBOR)
            self._links.on_stranger(event.peer, now)
        else:
            self._on_message[type(event.message)](event.peer, event.message, now)

    def _on_nodes(self, sender: PeerId, nodes: msg.Nodes, now: Time) -> None:
        if not self._recontacting.on_nodes(sender, nodes):
            self._joining.on_nodes(sender, nodes, now)

    def _on_join(self, sender: PeerId, join: msg.Join, now: Time) -> None:
        self._doorman.on_join(sender, join, now)
        if join.peer in self._overlay.active:
            self._asking.on_link(join.peer)
            self._recontacting.on_link(join.peer)

    def _on_neighbor(self, sender: PeerId, message: msg.Neighbor, now: Time) -> None:
        overlay = self._overlay
        size = len(overlay.active)
        if message.role is msg.NeighborRole.REQUEST:
            self._granting.on_request(sender, message, now)
        elif message.role is msg.NeighborRole.ACCEPT:
            self._on_accept(sender, message, now)
        elif message.role is msg.NeighborRole.QUERY:
            self._links.on_query(sender, message, now)
        else:
            self._links.on_list(sender, message, now)
        if sender in overlay.active:
            self._asking.on_link(sender)
            self._optimizing.on_link(sender)
            self._recontacting.on_link(sender)
        if len(overlay.active) > size:
            self._joining.on_link()

    def _on_accept(self, sender: PeerId, message: msg.Neighbor, now: Time) -> None:
        """NEIGHBOR as an answer, or from the end of one of our JOINs' walks (E06, E09)."""
        overlay = self._overlay
        link = overlay.active.get(sender)
        size = len(overlay.active)
        wanted = (
            self._asking.asked(sender)
            or self._optimizing.asked(sender)
            or self._recontacting.rejoined(sender)
            or self._joining.walking
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
        overlay = self._overlay
        if not message.alive:
            overlay.passive.remove(sender)
            self._recontacting.on_left(sender)
        if sender in overlay.active:
            overlay.drop_link(sender, DownReason.ENDED, tell=False, remember=message.alive)
            self._asking.back_off(sender, now)
            self._replace_links(now)
        else:
            self._optimizing.on_refusal(sender)
            self._asking.on_refusal(sender, now)

    def _on_leave(self, sender: PeerId, message: msg.Leave, now: Time) -> None:
        self._recontacting.on_left(message.source)
        if self._leaving.on_leave(sender, message):
            self._replace_links(now)


def _comes_over_links(event: ev.Received) -> bool:
    """Whether only neighbours send this: a walk, but for the first step of a JOIN's."""
    message = event.message
    if type(message) is msg.Join:
        return message.peer != event.peer
    return type(message) is msg.Shuffle or type(message) is msg.ForwardJoin
