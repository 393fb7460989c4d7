"""A channel over SDS whose contents only holders of a key can read, with PyCA's cryptography."""

import secrets

import trio
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from pair import pair

from episub_router.sds import SdsChannel


class RoomKey:
    """A `ContentCipher`: any authenticated encryption with a new nonce for each content."""

    def __init__(self, key: bytes) -> None:
        self._aead = ChaCha20Poly1305(key)

    def encrypt(self, content: bytes, context: bytes) -> bytes:
        nonce = secrets.token_bytes(12)
        return nonce + self._aead.encrypt(nonce, content, context)

    def decrypt(self, data: bytes, context: bytes) -> bytes:
        return self._aead.decrypt(data[:12], data[12:], context)


async def main() -> None:
    key = RoomKey(ChaCha20Poly1305.generate_key())
    async with (
        pair("lobby") as (one, two),
        SdsChannel(one, "room", cipher=key) as ann,
        SdsChannel(two, "room", cipher=key) as bob,
    ):
        await ann.send(b"a secret")
        print("with the key:", (await anext(bob)).content.decode())


trio.run(main)
