"""The author of a large message, and the signature over its preamble."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from libp2p.crypto.keys import PrivateKey, PublicKey
from libp2p.crypto.serialization import deserialize_public_key
from libp2p.peer.id import ID

from episub_router.pb import episub_pb2 as pb
from episub_router.protocol.piece_messages import Preamble
from episub_router.wire.keys import is_affordable, is_for_preambles

_DOMAIN = b"episub-preamble:"


@dataclass(frozen=True, slots=True)
class Authorship:
    """The publisher of a large message: the `envelope` of its preamble.

    `author` and `seqno` are `from` and `seqno` of the message; `key` is the author's serialized
    public key where its peer id doesn't hold it. The signature is empty where topics don't sign.
    """

    author: bytes
    seqno: bytes
    key: bytes = b""
    signature: bytes = b""


def sign_preamble(
    key: PrivateKey | None, topic: str, preamble: Preamble, author: bytes, seqno: bytes
) -> Authorship:
    """The envelope for `preamble`, signed with `key` if there is one."""
    if key is None:
        return Authorship(author, seqno)
    public = key.get_public_key()
    signature = key.sign(_signed_bytes(topic, preamble, seqno))
    return Authorship(author, seqno, needed_key(author, public.serialize()), signature)


def needed_key(author: bytes, key: bytes) -> bytes:
    """`key`, or nothing where the peer id `author` holds one: what stands beside that is neither
    looked at nor signed, and would be passed on."""
    return b"" if key and ID(author).extract_public_key() is not None else key


def verify_preamble(topic: str, preamble: Preamble) -> bool:
    """Whether the author that `preamble` names signed it for `topic`. Never raises."""
    envelope = preamble.envelope
    if not isinstance(envelope, Authorship) or not envelope.signature:
        return False
    key = _key_of(envelope)
    if key is None:
        return False
    # The key libraries raise nearly anything for bad keys and signatures.
    with suppress(Exception):
        if ID.from_pubkey(key) != ID(envelope.author):
            return False
        return key.verify(_signed_bytes(topic, preamble, envelope.seqno), envelope.signature)
    return False


def has_key_for_preambles(envelope: Authorship) -> bool:
    """Whether `envelope` has a key that preambles may have, written in the one way that there is
    for it. What is signed with another key, implementations may disagree on."""
    return _key_of(envelope) is not None


def _key_of(envelope: Authorship) -> PublicKey | None:
    with suppress(Exception):
        key = ID(envelope.author).extract_public_key()
        if key is None:
            if not is_affordable(envelope.key):
                return None
            key = deserialize_public_key(envelope.key)
            if key.serialize() != envelope.key:
                return None
        return key if is_for_preambles(key) else None
    return None


def _signed_bytes(topic: str, preamble: Preamble, seqno: bytes) -> bytes:
    id = preamble.id
    assert isinstance(id, bytes)
    record = pb.PreambleRecord(
        topic=topic,
        id=id,
        seqno=seqno,
        size=preamble.size,
        piece_size=preamble.piece_size,
        root=preamble.root,
    )
    # Without nested messages and maps, protobuf writes the fields in the order of their numbers.
    return _DOMAIN + record.SerializeToString(deterministic=True)
