"""From bytes of the network to a received message: whose it is, and what proves that (S08)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from libp2p.crypto.keys import PublicKey
from libp2p.crypto.serialization import deserialize_public_key
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.validators import PUBSUB_SIGNING_PREFIX

from episub_router.pb import sds_pb2
from episub_router.sds.protocol.entry import Key, StoredMessage
from episub_router.sds.protocol.group import MEMBERS
from episub_router.sds.protocol.message import ReceivedMessage, Way
from episub_router.sds.wire.codec import Codec, SdsWireError, detach_origin
from episub_router.wire.keys import is_affordable


@lru_cache(MEMBERS)
def _name(peer: bytes) -> str:
    """A peer's id in base58."""
    return ID(peer).to_base58()


@lru_cache(MEMBERS)
def _key_of(peer: bytes, key: bytes) -> PublicKey:
    """A peer's key: that in its id, or `key` if the id is its hash. Raises ValueError, also for
    what is too large to be kept or takes long to check."""
    if not is_affordable(key):
        raise ValueError("a costly key")
    found = ID(peer).extract_public_key() or deserialize_public_key(key)
    if ID.from_pubkey(found) != ID(peer):
        raise ValueError("a key of another peer")
    return found


def sign(pubsub: Pubsub, topic: str, data: bytes) -> rpc_pb2.Message:
    """The message that `pubsub.publish` would make; `push_msg` publishes it.

    Made here so that its signature can be stored before anybody sees the message.
    """
    if pubsub.sign_key is None:
        raise ValueError("this pubsub doesn't sign its messages (strict_signing=False)")
    pubsub.counter += 1
    message = rpc_pb2.Message(
        data=data,
        topicIDs=[topic],
        from_id=pubsub.my_id.to_bytes(),
        seqno=pubsub.counter.to_bytes(8, "big"),
    )
    message.signature = pubsub.sign_key.sign(_signed(message))
    message.key = pubsub.host.get_public_key().serialize()
    return message


def proof_of(message: rpc_pb2.Message) -> bytes:
    """What must be kept beside the data to check the signature later."""
    return sds_pb2.Origin(
        seqno=message.seqno,
        signature=message.signature,
        key=message.key,
        topics=message.topicIDs,
        from_id=message.from_id,
    ).SerializeToString()


def proven_sender(data: bytes, proof: bytes, topic: str) -> str | None:
    """The publisher of `data` on `topic`, if the proof holds."""
    try:
        origin = sds_pb2.Origin.FromString(proof)
        peer = origin.from_id
        message = rpc_pb2.Message(
            data=data, topicIDs=origin.topics, from_id=peer, seqno=origin.seqno
        )
        if topic in origin.topics:
            good = _key_of(peer, origin.key).verify(_signed(message), origin.signature)
            return _name(peer) if good else None
    except Exception:  # bytes that are no key raise whatever the crypto library raises
        pass
    return None


def _signed(message: rpc_pb2.Message) -> bytes:
    """What the signature of a message covers, where it has neither that nor a key."""
    return PUBSUB_SIGNING_PREFIX.encode() + message.SerializeToString()


@dataclass(frozen=True, slots=True)
class Rejected:
    """Bytes from `by` were no acceptable message."""

    by: str
    reason: str
    detail: str


@dataclass(eq=False)
class Intake:
    """With `bind_sender`, a message counts as its sender's only with the sender's signature."""

    topic: str
    codec: Codec
    bind_sender: bool

    def broadcast(self, carrier: rpc_pb2.Message) -> ReceivedMessage | Rejected:
        """A message that came over the topic, from its author or from a member that repairs it."""
        by = _name(carrier.from_id) if carrier.from_id else ""
        try:
            raw, origin = detach_origin(carrier.data)
            message = self.codec.decode(raw)
        except SdsWireError as error:
            return Rejected(by or error.sender_id, error.reason, str(error))
        proven = proven_sender(raw, origin, self.topic) if self.bind_sender and origin else None
        sender = message.sender_id or proven or by
        if not message.sender_id:
            message = replace(message, sender_id=sender)
        if not self.bind_sender:
            return ReceivedMessage(message, raw, Way.BROADCAST, by or None, origin)
        if by == sender:
            return ReceivedMessage(message, raw, Way.BROADCAST, by or None, proof_of(carrier))
        way = Way.RELAYED if proven == sender else Way.UNPROVEN
        return ReceivedMessage(message, raw, way, by or None, origin)

    def proves_id(self, received: ReceivedMessage, channel_id: str, key: Key) -> bool:
        """Whether a message is proven, and has the place that it was said to have."""
        place = received.message.channel_id, received.message.key
        return received.way is Way.RELAYED and place == (channel_id, key)

    def served(self, item: StoredMessage, peer: str) -> ReceivedMessage | Rejected:
        """A message that `peer` handed out over a direct stream."""
        try:
            message = self.codec.decode(item.raw, item.key[0] or None)
        except SdsWireError as error:
            return Rejected(peer, error.reason, str(error))
        way = Way.RELAYED
        if self.bind_sender:
            proven = proven_sender(item.raw, item.origin, self.topic)
            if proven is None or proven != (message.sender_id or proven):
                way = Way.UNPROVEN
            elif not message.sender_id:
                message = replace(message, sender_id=proven)
        return ReceivedMessage(message, item.raw, way, peer, item.origin)
