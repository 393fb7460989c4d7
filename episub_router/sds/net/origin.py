"""The publisher of a message: pubsub's signature, kept as a proof that others can check.

A signed pubsub message proves its publisher. Stored with the message, the same signature
proves it to a third party, so that neither acknowledgements nor history can be forged by
any peer that repairs or serves them.
"""

from __future__ import annotations

from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.validators import PUBSUB_SIGNING_PREFIX, signature_validator

from episub_router.pb import sds_pb2


def publisher(message: rpc_pb2.Message) -> str:
    """The publishing peer's id in base58."""
    return ID(message.from_id).to_base58()


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
    payload = PUBSUB_SIGNING_PREFIX.encode() + message.SerializeToString()
    message.signature = pubsub.sign_key.sign(payload)
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
        message = rpc_pb2.Message(
            data=data,
            topicIDs=origin.topics,
            from_id=origin.from_id,
            seqno=origin.seqno,
            signature=origin.signature,
            key=origin.key,
        )
        if topic not in origin.topics or not signature_validator(message):
            return None
        return publisher(message)
    except Exception:  # bytes that are no key raise whatever the crypto library raises
        return None
