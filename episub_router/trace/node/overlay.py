"""The events of a node's overlays, from the steps of the protocol's machines."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from episub_router.protocol import effects as ef
from episub_router.protocol.topic import Topic
from episub_router.trace.harmless import harmless
from episub_router.trace.links import changes
from episub_router.trace.node import NodeTrace


@harmless
class OverlayTrace:
    """Observes the machines from outside: the core doesn't know that it is traced.

    Counters of an `ordinary` kind are no discards and stay out of the trace.
    """

    def __init__(self, trace: NodeTrace, ordinary: type[Enum]) -> None:
        self._trace = trace
        self._ordinary = ordinary
        self._eager: dict[str, dict[Any, None]] = {}
        """The eager peers of each topic after its last step."""

    def fail(self, error: Exception) -> None:
        """Count an event that could not be made."""
        self._trace.fail(error)

    def stepped(self, machine: Topic, effects: Iterable[ef.Effect]) -> None:
        """`machine` has taken a step, and these are its effects."""
        topic, trace = machine.name, self._trace
        for effect in effects:
            peer: Any
            if isinstance(effect, ef.NeighborUp):
                peer = effect.peer
                link = machine.membership.active.get(peer)
                rtt = None if link is None or link.rtt is None else link.rtt.mean
                trace.neighbor_up(peer, topic, effect.kind.name.lower(), rtt)
            elif isinstance(effect, ef.NeighborDown):
                peer = effect.peer
                trace.neighbor_down(peer, topic, effect.reason.value)
            elif isinstance(effect, ef.Dropped):
                peer = effect.peer
                trace.discarded(effect.reason.value, peer, topic)
        self._compare(machine)

    def measured(self, peer: bytes, rtt: float | None) -> None:
        """A round trip of `rtt` seconds, or none."""
        self._trace.round_trip(peer, rtt)

    def counted(self, reason: Enum, count: int) -> None:
        """The router has counted something. A machine's drops are seen in `stepped`."""
        if not isinstance(reason, (self._ordinary, ef.DropReason)):
            self._trace.discarded(reason.value, count=count)

    def _compare(self, machine: Topic) -> None:
        """Record the links that became eager, and those that are eager no longer."""
        peers = machine.broadcast
        before = self._eager.get(machine.name, {})
        if peers.eager == before:
            return
        for peer, state in changes(before, peers.eager, peers.lazy):
            self._trace.became(peer, machine.name, state)
        if peers.eager:
            self._eager[machine.name] = dict.fromkeys(peers.eager)
        else:
            self._eager.pop(machine.name, None)
