"""How far large messages have come, for the readers of a topic's events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from libp2p.peer.id import ID

from episub_router.net.events import LargeProgress, LargeSent, TopicEvents
from episub_router.net.peers import PeerListener, RemotePeer
from episub_router.protocol.piece_messages import Piece, PieceAnnounce, Preamble
from episub_router.protocol.pieces.transfers import Transfer
from episub_router.protocol.topic import Topic
from episub_router.protocol.types import MessageId, PeerId
from episub_router.util.bounded import put_last
from episub_router.wire import Authorship

STEPS = 16
"""Reports on one message beside the first; chosen: what a bar shows."""

_MAX_FOLLOWED = 64
"""Messages of this node, the last ones; chosen: as many as may be under way in a topic."""


class LargeReports(PeerListener):
    """Reports each step of a message once."""

    def __init__(self, events: TopicEvents, machines: Mapping[str, Topic]) -> None:
        self._events = events
        self._machines = machines
        self._sent: dict[tuple[str, MessageId], dict[PeerId, None]] = {}
        """The neighbours that were sent all of each message of our own."""

    def here(self, topic: str, message: Piece | PieceAnnounce) -> int:
        """How many pieces are here of the message that `message` announces, or is a piece of; -1
        where it isn't under way."""
        transfer = self._transfer(topic, _id_of(message))
        return -1 if transfer is None else transfer.have.bit_count()

    def came(self, topic: str, message: Piece | PieceAnnounce, before: int) -> None:
        """`message` was acted on; there were `before` pieces."""
        id = _id_of(message)
        transfer = self._transfer(topic, id)
        if transfer is None or (topic, id) in self._sent:
            return
        preamble, here = transfer.preamble, transfer.have.bit_count()
        envelope: Any = preamble.envelope
        is_step = STEPS * here // preamble.count > STEPS * before // preamble.count
        if is_step and isinstance(envelope, Authorship):
            received = min(here * preamble.piece_size, preamble.size)
            source = ID(envelope.author)
            self._events.emit(LargeProgress(topic, _bytes(id), source, received, preamble.size))

    def published(self, topic: str, preamble: Preamble) -> None:
        """This node publishes a message in pieces."""
        put_last(self._sent, (topic, preamble.id), {}, _MAX_FOLLOWED)
        self._events.emit(LargeSent(topic, _bytes(preamble.id), preamble.size, 0))

    def pieces_sent(self, peer: RemotePeer) -> None:
        for (topic, id), peers in self._sent.items():
            transfer = self._transfer(topic, id)
            if transfer is not None and peer.key not in peers and not transfer.lacked_by(peer.key):
                peers[peer.key] = None
                size = transfer.preamble.size
                self._events.emit(LargeSent(topic, _bytes(id), size, len(peers)))

    def _transfer(self, topic: str, id: MessageId) -> Transfer | None:
        machine = self._machines.get(topic)
        return (
            None if machine is None or machine.pieces is None else machine.pieces.transfers.get(id)
        )


def _id_of(message: Piece | PieceAnnounce) -> MessageId:
    return message.id if isinstance(message, Piece) else message.preamble.id


def _bytes(id: Any) -> bytes:
    """A message's id, as the driver knows it."""
    return bytes(id)
