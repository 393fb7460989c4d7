"""Keys of each kind, and what is signed with them. Keys are made when a test asks for one: every
worker of pytest-xdist imports all tests, and an RSA key takes half a second."""

from __future__ import annotations

from functools import cache, partial

from libp2p.crypto import ed25519, rsa, secp256k1
from libp2p.crypto.keys import KeyPair
from libp2p.peer.envelope import seal_record
from libp2p.peer.id import ID
from libp2p.peer.peer_record import PeerRecord
from multiaddr import Multiaddr

ALICE = ed25519.create_new_key_pair(b"a" * 32)
BOB = ed25519.create_new_key_pair(b"b" * 32)


@cache
def rsa_keys() -> KeyPair:
    return rsa.create_new_key_pair(2048)


OF_EACH_KIND = {
    "ed25519": lambda: ALICE,
    "secp256k1": partial(secp256k1.create_new_key_pair, b"s" * 32),
    "rsa": rsa_keys,
}


def id_of(keys: KeyPair) -> bytes:
    return ID.from_pubkey(keys.public_key).to_bytes()


def sealed(
    keys: KeyPair, *addresses: Multiaddr, seq: int = 1, about: KeyPair | None = None
) -> bytes:
    """A record of these addresses, `about` the peer that signs it or another one."""
    record = PeerRecord(ID(id_of(about or keys)), list(addresses), seq)
    return seal_record(record, keys.private_key).marshal_envelope()
