"""From bytes of the network to a received message: whose it is, and what proves that (S08)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from libp2p.pubsub.pb import rpc_pb2

from episub_router.sds.net.origin import proof_of, proven_sender, publisher
from episub_router.sds.protocol.entry import Key
from episub_router.sds.protocol.message import ReceivedMessage, Way
from episub_router.sds.protocol.restored import StoredMessage
from episub_router.sds.wire import Codec, SdsWireError, detach_origin


@dataclass(frozen=True, slots=True)
class Rejected:
    """Bytes from `by` were no acceptable message."""

    by: str
    reason: str
    detail: str


class Intake:
    """With `bind_sender`, a message counts as its sender's only with the sender's signature."""

    def __init__(self, topic: str, codec: Codec, *, bind_sender: bool) -> None:
        self._topic = topic
        self._codec = codec
        self._bind_sender = bind_sender

    def broadcast(self, carrier: rpc_pb2.Message) -> ReceivedMessage | Rejected:
        """A message that came over the topic, from its author or from a member that repairs it."""
        by = publisher(carrier) if carrier.from_id else ""
        try:
            raw, origin = detach_origin(carrier.data)
            message = self._codec.decode(raw)
        except SdsWireError as error:
            return Rejected(by or error.sender_id, error.reason, str(error))
        proven = proven_sender(raw, origin, self._topic) if self._bind_sender and origin else None
        sender = message.sender_id or proven or by
        if not message.sender_id:
            message = replace(message, sender_id=sender)
        if not self._bind_sender:
            return ReceivedMessage(message, raw, Way.BROADCAST, by or None, origin)
        if by == sender:
            return ReceivedMessage(message, raw, Way.BROADCAST, by or None, proof_of(carrier))
        way = Way.REPAIRED if proven == sender else Way.UNPROVEN
        return ReceivedMessage(message, raw, way, by or None, origin)

    def proves_id(self, received: ReceivedMessage, key: Key) -> bool:
        """Whether a message is proven, and has the place that it was said to have."""
        message = received.message
        return received.way is Way.PULLED and key == (message.lamport or 0, message.message_id)

    def served(self, item: StoredMessage, peer: str) -> ReceivedMessage | Rejected:
        """A message that `peer` handed out over a direct stream."""
        try:
            message = self._codec.decode(item.raw, item.key[0] or None)
        except SdsWireError as error:
            return Rejected(peer, error.reason, str(error))
        way = Way.PULLED
        if self._bind_sender:
            proven = proven_sender(item.raw, item.origin, self._topic)
            if proven is None or proven != (message.sender_id or proven):
                way = Way.UNPROVEN
            elif not message.sender_id:
                message = replace(message, sender_id=proven)
        return ReceivedMessage(message, item.raw, way, peer, item.origin)
