"""What the core is told of addresses: a prefix that peers of one owner are likely to share."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv4Address, ip_address, ip_network

from multiaddr import Multiaddr

from episub_router.net.params import RouterParams


def address_prefix(addresses: Iterable[Multiaddr], params: RouterParams) -> str | None:
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
                bits = params.prefix_v4 if isinstance(ip, IPv4Address) else params.prefix_v6
                return str(ip_network(f"{ip}/{bits}", strict=False))
    return None
