"""A channel with a host of its own, in one line."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.keys import KeyPair
from multiaddr import Multiaddr

from episub_router.addresses import parse_addresses
from episub_router.host import LOOPBACK, EpisubHost, running
from episub_router.router import EpisubRouter
from episub_router.sds.net.channel import SdsChannel
from episub_router.sds.store.sqlite import MemoryStore, SqliteStore


@asynccontextmanager
async def open(
    topic: str,
    *,
    path: str | Path | None = None,
    key: bytes | None = None,
    bootstrap: Sequence[str | Multiaddr] = (),
    listen: Iterable[str | Multiaddr] = (LOOPBACK,),
    **options: Any,
) -> AsyncIterator[SdsChannel]:
    """A channel of `topic` on a new host that joins through `bootstrap`.

        async with episub_router.sds.open("room", path="room.db") as channel:

    The host's identity is made of `key`, 32 secret bytes, and with a `path` kept beside it in a
    file that ends in `.key`. It listens at `listen`, by default on this machine only. `options` are
    those of `SdsChannel`. What the body raises comes out as itself.
    """
    node = EpisubHost(
        EpisubRouter(bootstrap=list(bootstrap)),
        key_pair=_identity(path, key),
        listen=parse_addresses("listen", listen),
    )
    store = MemoryStore() if path is None else SqliteStore(path)
    with closing(store):
        async with running(node), SdsChannel(node.pubsub, topic, store=store, **options) as channel:
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
