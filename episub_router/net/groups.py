"""What the core gets of addresses: a prefix that peers of one owner are likely to share."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, ip_address, ip_network
from typing import Any

from libp2p.abc import IHost
from libp2p.peer.id import ID
from multiaddr import Multiaddr

from episub_router.net.address_book import AddressBook

_PREFIX_V4 = 24
"""Bits; py-libp2p: SUBNET_PREFIX_LEN_V4."""

_PREFIX_V6 = 48
"""Bits; py-libp2p: SUBNET_PREFIX_LEN_V6."""


def group_of(host: IHost, book: AddressBook, peer: Any) -> str | None:
    """What peers of one owner are likely to share with `peer`, if that is known."""
    connections = host.get_network().get_connections(ID(peer))
    seen = [address for c in connections for address in c.get_transport_addresses()]
    # Where it is connected from counts more than where it says that it is.
    return address_prefix([*seen, *book.addresses(peer)])


def address_prefix(addresses: Iterable[Multiaddr]) -> str | None:
    """The network of the first public IP address; None where there is none.

    Private and loopback addresses are no sign of one owner, and a relayed address is the relay's.
    """
    for address in addresses:
        for protocol in ("ip4", "ip6"):
            try:
                if "/p2p-circuit" in str(address):
                    continue
                ip = ip_address(address.value_for_protocol(protocol) or "")
            except Exception:
                # Multiaddr has an exception of its own for each way not to hold an IP address.
                continue
            if ip.is_global:
                bits = _PREFIX_V4 if isinstance(ip, IPv4Address) else _PREFIX_V6
                return str(ip_network(f"{ip}/{bits}", strict=False))
    return None
