"""Keys of each kind. They are made when a test asks for one: every worker of pytest-xdist imports
all tests, and an RSA key takes half a second."""

from __future__ import annotations

from functools import cache, partial

from libp2p.crypto import ed25519, rsa, secp256k1
from libp2p.crypto.keys import KeyPair

ALICE = ed25519.create_new_key_pair(b"a" * 32)


@cache
def rsa_keys() -> KeyPair:
    return rsa.create_new_key_pair(2048)


OF_EACH_KIND = {
    "ed25519": lambda: ALICE,
    "secp256k1": partial(secp256k1.create_new_key_pair, b"s" * 32),
    "rsa": rsa_keys,
}
