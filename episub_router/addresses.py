"""Addresses to listen on, those that are announced to others, and what they say of their owner."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, ip_address, ip_network

from multiaddr import Multiaddr
from multiaddr.utils import get_thin_waist_addresses

_WILDCARDS = ("/ip4/0.0.0.0/", "/ip6/::/")

_PREFIX_V4 = 24
"""Bits; py-libp2p: SUBNET_PREFIX_LEN_V4."""

_PREFIX_V6 = 48
"""Bits; py-libp2p: SUBNET_PREFIX_LEN_V6."""

_PREFIXES = 4096
"""Addresses whose prefix is remembered: the core asks again and again; as records in the book."""

_LOOK_AGAIN = 1.0
"""Seconds; chosen: a host that changes networks says its new addresses soon enough."""

AddressFilter = Callable[[Sequence[Multiaddr]], list[Multiaddr]]


def parse_addresses(name: str, addresses: Iterable[Multiaddr | str]) -> list[Multiaddr]:
    """`addresses` as multiaddrs.

    Raises TypeError that names the argument for what is no list, or has what is no address;
    ValueError for a text that is none.
    """
    if isinstance(addresses, str | bytes | Multiaddr):
        raise TypeError(
            f"{name} must be a list of multiaddrs, and is one alone; write [{str(addresses)!r}]"
        )
    if not isinstance(addresses, Iterable):
        raise TypeError(f"{name} must be a list of multiaddrs: {addresses!r}")
    found = []
    for address in addresses:
        if not isinstance(address, str | Multiaddr):
            raise TypeError(f"{name}: {address!r} is no multiaddr, nor the text of one")
        try:
            found.append(Multiaddr(address) if isinstance(address, str) else address)
        except Exception as error:  # whatever the parts of the text make multiaddr raise
            raise ValueError(f"{name}: {address!r} is no multiaddr") from error
    return found


def is_wildcard(address: Multiaddr) -> bool:
    """Whether `address` stands for all interfaces: to be listened on, not to be dialled."""
    return str(address).startswith(_WILDCARDS)


def is_circuit(address: Multiaddr) -> bool:
    """Whether `address` leads through a relay."""
    try:
        return "/p2p-circuit" in str(address)
    except Exception:  # whatever multiaddr raises, which reads the parts only now
        return False


def dialable() -> AddressFilter:
    """A function that puts the interfaces' addresses in the place of wildcards.

    It remembers them for `_LOOK_AGAIN` seconds: py-libp2p asks for every frame that it sends.
    """
    known: dict[Multiaddr, list[Multiaddr]] = {}
    until = -math.inf

    def expand(addresses: Sequence[Multiaddr]) -> list[Multiaddr]:
        nonlocal until
        if time.monotonic() > until:
            until = time.monotonic() + _LOOK_AGAIN
            known.clear()
        for address in addresses:
            if address not in known:
                known[address] = get_thin_waist_addresses(address) or [address]
        return [expanded for address in addresses for expanded in known[address]]

    return expand


def check_free(address: Multiaddr) -> None:
    """Raises OSError if another process has the TCP port of `address`.

    py-libp2p shares a port with any process that allows it, and each gets some of the connections.
    """
    if [protocol.name for protocol in address.protocols()][1:] != ["tcp"]:
        return
    host = address.value_for_protocol(address.protocols()[0].code)
    port = int(address.value_for_protocol("tcp"))
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise OSError(f"can't listen on {address}: {error.strerror}") from error


def address_prefix(addresses: Iterable[Multiaddr]) -> str | None:
    """The network of the first public IP address; None where there is none.

    Private and loopback addresses are no sign of one owner, and a relayed address is the relay's.
    """
    return next(filter(None, map(_prefix, addresses)), None)


@lru_cache(_PREFIXES)
def _prefix(address: Multiaddr) -> str | None:
    for protocol in ("ip4", "ip6"):
        try:
            if is_circuit(address):
                continue
            ip = ip_address(address.value_for_protocol(protocol) or "")
        except Exception:
            # Multiaddr has an exception of its own for each way not to hold an IP address.
            continue
        if ip.is_global:
            bits = _PREFIX_V4 if isinstance(ip, IPv4Address) else _PREFIX_V6
            return str(ip_network(f"{ip}/{bits}", strict=False))
    return None
