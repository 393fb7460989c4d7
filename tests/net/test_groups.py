"""Which peers count as one party: those of one public address prefix."""

from __future__ import annotations

import pytest
from multiaddr import Multiaddr

from episub_router.addresses import address_prefix

RELAY = "12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK"


@pytest.mark.parametrize(
    ("addresses", "prefix"),
    [
        (["/ip4/8.8.4.4/tcp/1"], "8.8.4.0/24"),
        (["/ip4/8.8.4.200/udp/9/quic-v1"], "8.8.4.0/24"),
        (["/ip6/2001:4860:4860:1:2::1/tcp/1"], "2001:4860:4860::/48"),
        (["/ip4/127.0.0.1/tcp/1", "/ip4/10.1.2.3/tcp/1", "/ip4/8.8.4.4/tcp/1"], "8.8.4.0/24"),
        (["/ip4/192.168.1.1/tcp/1"], None),
        (["/ip6/fe80::1/tcp/1"], None),
        (["/dns4/example.org/tcp/1"], None),
        ([f"/ip4/8.8.4.4/tcp/1/p2p/{RELAY}/p2p-circuit"], None),
        ([], None),
    ],
)
def test_prefix(addresses: list[str], prefix: str | None) -> None:
    assert address_prefix(map(Multiaddr, addresses)) == prefix


def test_an_unreadable_address_has_none() -> None:
    unreadable = Multiaddr.__new__(Multiaddr)
    unreadable._bytes = b"\xff\xff"
    assert address_prefix([unreadable]) is None
