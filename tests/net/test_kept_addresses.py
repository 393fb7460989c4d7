"""What a peerstore has of a peer before a dial, and after it."""

from __future__ import annotations

import time

import pytest
from libp2p.peer.id import ID
from libp2p.peer.peerstore import PERMANENT_ADDR_TTL, PeerStore
from multiaddr import Multiaddr

from episub_router.net.connections.kept_addresses import ADDRESS_TTL, addresses_kept

PEER = ID(b"peer")
OURS, THEIRS = (Multiaddr(f"/ip4/127.0.0.1/tcp/{port}") for port in (1, 2))


@pytest.mark.parametrize("reached", [False, True])
@pytest.mark.parametrize(
    ("before", "after"), [(PERMANENT_ADDR_TTL, PERMANENT_ADDR_TTL), (3600, 3600), (5, ADDRESS_TTL)]
)
def test_they_stay_as_long_as_they_were_to(before: int, after: int, reached: bool) -> None:
    store = PeerStore()
    store.add_addrs(PEER, [THEIRS], before)
    with addresses_kept(store, PEER, [OURS]):
        store.clear_addrs(PEER)
        if reached:
            store.add_addrs(PEER, [OURS], ADDRESS_TTL)
    assert store.addrs(PEER) == ([OURS, THEIRS] if reached else [THEIRS])
    assert after - 1 <= store.peer_data_map[PEER].get_ttl() <= after


def test_ours_are_left_where_there_were_none() -> None:
    store = PeerStore()
    with addresses_kept(store, PEER, [OURS]):
        store.clear_addrs(PEER)
    assert store.addrs(PEER) == [OURS]
    assert store.peer_data_map[PEER].get_ttl() == ADDRESS_TTL


def test_those_that_have_expired_don_t_come_back() -> None:
    store = PeerStore()
    store.add_addrs(PEER, [THEIRS], 1)
    store.peer_data_map[PEER].last_identified = int(time.time()) - 10
    with addresses_kept(store, PEER, [OURS]):
        store.clear_addrs(PEER)
    assert store.addrs(PEER) == [OURS]
