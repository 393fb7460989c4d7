"""How far large messages have come, for the readers of a topic's events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from libp2p.peer.id import ID

from episub_router.net.events import LargeProgress, LargeSent, TopicEvents
from episub_router.protocol.piece_messages import Preamble
from episub_router.protocol.topic import Topic
from episub_router.protocol.types import MessageId, PeerId
from episub_router.util.bounded import put_last
from episub_router.wire import Authorship

STEPS = 16
"""Reports on one message beside the first; chosen: what a bar shows."""

_MAX_FOLLOWED = 64
"""Messages of others, and of this node; chosen: as many as may be under way in a topic."""


class LargeReports:
    """Reports each step of a message once."""

    def __init__(self, events: TopicEvents, machines: Mapping[str, Topic]) -> None:
        self._events = events
        self._machines = machines
        self._steps: dict[tuple[str, MessageId], int] = {}
        """The last step reported of each message that comes."""
        self._sent: dict[tuple[str, MessageId], dict[PeerId, bool]] = {}
        """The neighbours that were sent all of each of our own; False: not all of it."""

    def came(self, topic: str, id: MessageId) -> None:
        """The preamble or a piece of the message `id` came."""
        machine = self._machines.get(topic)
        if machine is None or machine.pieces is None:
            return
        transfer, key = machine.pieces.transfers.get(id), (topic, id)
        if transfer is None or key in self._sent:
            return
        preamble, here = transfer.preamble, transfer.have.bit_count()
        step = STEPS * here // preamble.count
        envelope: Any = preamble.envelope
        if step <= self._steps.get(key, -1) or not isinstance(envelope, Authorship):
            return
        put_last(self._steps, key, step, _MAX_FOLLOWED)
        received = min(here * preamble.piece_size, preamble.size)
        source = ID(envelope.author)
        self._events.emit(LargeProgress(topic, _bytes(id), source, received, preamble.size))

    def published(self, topic: str, preamble: Preamble) -> None:
        """This node publishes a message in pieces."""
        put_last(self._sent, (topic, preamble.id), {}, _MAX_FOLLOWED)
        self._events.emit(LargeSent(topic, _bytes(preamble.id), preamble.size, 0))

    def drained(self, peer: PeerId) -> None:
        """All pieces that waited for `peer` have been sent."""
        for (topic, id), peers in self._sent.items():
            machine = self._machines.get(topic)
            if machine is None or machine.pieces is None or peer in peers:
                continue
            transfer = machine.pieces.transfers.get(id)
            if transfer is not None and not transfer.lacked_by(peer):
                peers[peer] = True
                size = transfer.preamble.size
                self._events.emit(LargeSent(topic, _bytes(id), size, sum(peers.values())))

    def cut_off(self, topic: str, ids: Iterable[MessageId], peer: PeerId) -> None:
        """What waited for `peer` of these messages isn't sent."""
        for id in ids:
            peers = self._sent.get((topic, id))
            if peers is not None:
                peers.setdefault(peer, False)


def _bytes(id: Any) -> bytes:
    """A message's id, as the driver knows it."""
    return bytes(id)
