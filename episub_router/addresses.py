"""Addresses to listen on, and those that are announced to others."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from multiaddr import Multiaddr
from multiaddr.utils import get_thin_waist_addresses

_WILDCARDS = ("/ip4/0.0.0.0/", "/ip6/::/")

AddressFilter = Callable[[Sequence[Multiaddr]], list[Multiaddr]]


def is_wildcard(address: Multiaddr) -> bool:
    """Whether `address` stands for all interfaces: to be listened on, not to be dialled."""
    return str(address).startswith(_WILDCARDS)


def dialable() -> AddressFilter:
    """A function that puts the interfaces' addresses in the place of wildcards.

    It remembers: py-libp2p asks for every frame that it sends.
    """
    known: dict[Multiaddr, list[Multiaddr]] = {}

    def expand(addresses: Sequence[Multiaddr]) -> list[Multiaddr]:
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
