"""The signature in a LEAVE, without which anybody could expel others (E14).

A proof is a libp2p signed envelope (domain "episub-leave") around a `LeaveRecord`. Envelopes
have several encodings: tell leaves apart by source and `leave_seq`, not by the proof's bytes.
"""

from __future__ import annotations

from google.protobuf.message import DecodeError
from libp2p.crypto.keys import PrivateKey
from libp2p.peer.envelope import Envelope, make_unsigned, unmarshal_envelope
from libp2p.peer.id import ID
from libp2p.peer.pb import envelope_pb2

from episub_router.pb import episub_pb2 as pb
from episub_router.wire.keys import has_affordable_key

_DOMAIN = "episub-leave"
_PAYLOAD_TYPE = b"/episub/leave"


def sign_leave(private_key: PrivateKey, topic: str, seq: int) -> bytes:
    """The proof that the owner of `private_key` left `topic` at `seq` (ns since 1970)."""
    payload = pb.LeaveRecord(topic=topic, seq=seq).SerializeToString()
    signature = private_key.sign(make_unsigned(_DOMAIN, _PAYLOAD_TYPE, payload))
    return Envelope(
        private_key.get_public_key(), _PAYLOAD_TYPE, payload, signature
    ).marshal_envelope()


def verify_leave(source: bytes, topic: str, proof: bytes) -> bool:
    """Whether `proof` shows that the peer `source` itself left `topic`. Never raises."""
    if leave_seq(proof) is None:
        return False
    if not has_affordable_key(proof):
        return False
    try:
        envelope = unmarshal_envelope(proof)
        record = pb.LeaveRecord.FromString(envelope.raw_payload)
        if envelope.payload_type != _PAYLOAD_TYPE or record.topic != topic:
            return False
        if ID.from_pubkey(envelope.public_key).to_bytes() != source:
            return False
        envelope.validate(_DOMAIN)
    except Exception:
        # The key libraries raise nearly anything for bad keys and signatures.
        return False
    return True


def leave_seq(proof: bytes) -> int | None:
    """When the source left, in nanoseconds since 1970; None if `proof` says nothing usable.

    Doesn't verify the proof.
    """
    try:
        envelope = envelope_pb2.Envelope.FromString(proof)
        seq = pb.LeaveRecord.FromString(envelope.payload).seq
    except DecodeError:
        return None
    return seq if seq > 0 else None
