"""The author of a large message, and the signature over its preamble."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from libp2p.crypto.keys import PrivateKey, PublicKey
from libp2p.crypto.serialization import deserialize_public_key
from libp2p.peer.id import ID

from episub_router.pb import episub_pb2 as pb
from episub_router.protocol.piece_messages import Preamble
from episub_router.wire.keys import is_affordable

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
        return key.verify(_signed_bytes(topic, preamble, envelope.seqno), envelope.signature)
    return False


def _key_of(envelope: Authorship) -> PublicKey | None:
    author = ID(envelope.author)
    with suppress(Exception):
        inline = author.extract_public_key()
        if inline is not None:
            return inline
        if envelope.key and is_affordable(envelope.key):
            key = deserialize_public_key(envelope.key)
            return key if ID.from_pubkey(key) == author else None
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
