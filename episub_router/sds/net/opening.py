"""A channel with a host of its own, in one line."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from libp2p import new_host
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.keys import KeyPair
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

from episub_router.addresses import dialable, is_wildcard
from episub_router.pubsub import ResilientPubsub
from episub_router.router import EpisubRouter
from episub_router.sds.net.channel import SdsChannel
from episub_router.sds.store import MemoryStore, SqliteStore


@asynccontextmanager
async def open(
    topic: str,
    *,
    path: str | Path | None = None,
    key: bytes | None = None,
    bootstrap: Sequence[str | Multiaddr] = (),
    listen: str = "/ip4/0.0.0.0/tcp/0",
    **options: Any,
) -> AsyncIterator[SdsChannel]:
    """A channel of `topic` on a new host that joins through `bootstrap`.

        async with episub_router.sds.open("room", path="room.db") as channel:

    The host's identity is made of `key`, 32 secret bytes, and with a `path` kept beside it in a
    file that ends in `.key`. `options` are those of `SdsChannel`.
    """
    pair = _identity(path, key)
    store = MemoryStore() if path is None else SqliteStore(path)
    address = Multiaddr(listen)
    expand = dialable() if is_wildcard(address) else None
    host = new_host(key_pair=pair, muxer_preference="YAMUX", addrs_factory=expand)
    router = EpisubRouter(bootstrap=list(bootstrap))
    pubsub = ResilientPubsub(host, router)
    with closing(store):
        async with (
            host.run([address]),
            background_trio_service(pubsub),
            background_trio_service(router),
        ):
            await pubsub.wait_until_ready()
            async with SdsChannel(pubsub, topic, store=store, **options) as channel:
                yield channel


def _identity(path: str | Path | None, key: bytes | None) -> KeyPair:
    """The host's keys: a store belongs to one identity, so they are kept with it."""
    if path is None or key is not None:
        return create_new_key_pair(key)
    file = Path(f"{path}.key")
    if not file.exists():
        secret = create_new_key_pair().private_key.to_bytes()[:32]
        new = Path(f"{path}.key.new")
        new.touch(mode=0o600)
        with new.open("wb") as opened:
            opened.write(secret)
            opened.flush()
            os.fsync(opened.fileno())
        new.replace(file)
    return create_new_key_pair(file.read_bytes())
