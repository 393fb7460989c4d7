"""What the application put into the peerstore outlives our dials.

py-libp2p dials the first TCP address that its peerstore has and no other, so each address is
tried with the store holding nothing else; and each dial limits the life of all of a peer's
addresses to two minutes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from libp2p.abc import IPeerStore
from libp2p.peer.id import ID
from libp2p.peer.peerstore import PeerStore, PeerStoreError
from multiaddr import Multiaddr

ADDRESS_TTL = 120
"""Seconds that py-libp2p keeps the addresses of a peer that it connects to."""

_FOR_EVER = 0
"""py-libp2p's time to live of an address that doesn't end."""


@contextmanager
def addresses_kept(peerstore: IPeerStore, peer: ID, dialled: list[Multiaddr]) -> Iterator[None]:
    """Around dials to `peer`: afterwards the store has its addresses as before, for as long as
    before, beside the one that a dial left there; `dialled` if it had none and has none."""
    before: list[Multiaddr] = []
    with suppress(PeerStoreError):
        before = list(peerstore.addrs(peer))
    left = _life(peerstore, peer)
    try:
        yield
    finally:
        if before:
            ttl = left if left == _FOR_EVER else max(left, ADDRESS_TTL)
            peerstore.add_addrs(peer, before, ttl)
        elif not _has_addresses(peerstore, peer):
            peerstore.add_addrs(peer, dialled, ADDRESS_TTL)


def _life(peerstore: IPeerStore, peer: ID) -> int:
    """Seconds until the store forgets the addresses of `peer`."""
    data = peerstore.peer_data_map.get(peer) if isinstance(peerstore, PeerStore) else None
    if data is None or data.ttl == _FOR_EVER:
        return _FOR_EVER
    return max(1, data.last_identified + data.ttl - int(time.time()))


def _has_addresses(peerstore: IPeerStore, peer: ID) -> bool:
    with suppress(PeerStoreError):
        return bool(peerstore.addrs(peer))
    return False
