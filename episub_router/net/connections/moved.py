"""Hosts that change from one network to another: this one, and peers.

TCP has no word for it. A connection from an address that its host has no longer carries nothing,
and both ends wait for what was sent, or for a probe, until they give up.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any
from weakref import WeakKeyDictionary

import trio
from libp2p.abc import IHost, INetConn, INetwork

from episub_router.net.connections.closing import close_within
from episub_router.net.connections.kernel import socket_below

logger = logging.getLogger(__name__)

_ADDRESS_GROUPS = 0x10 | 0x100
"""rtnetlink(7): RTMGRP_IPV4_IFADDR and RTMGRP_IPV6_IFADDR."""

_SETTLE = 0.5
"""Seconds between a change and a look; chosen: a renewed lease takes an address away and gives it
back."""

CROSSING = 10.0
"""Seconds within which two peers may have dialled each other. Chosen: as long as a dial and its
stream may take."""

_CLOSE_TIMEOUT = 1.0
"""Seconds; py-libp2p's close takes 0.2."""


async def close_from_lost_addresses(host: IHost) -> None:
    """Close connections from addresses that this machine loses, until cancelled. Returns where the
    system doesn't say when that happens (Linux does)."""
    family = getattr(socket, "AF_NETLINK", None)
    if family is None:
        return
    try:
        changes = trio.socket.socket(family, socket.SOCK_RAW)
    except OSError:
        return  # a sandbox
    with changes:
        await changes.bind((0, _ADDRESS_GROUPS))
        while True:
            with suppress(OSError):  # more changes than there is room for
                await changes.recv(1 << 16)
            await trio.sleep(_SETTLE)
            for connection in list(host.get_network().get_connections()):
                own = _ends(connection)[0]
                if own and not _is_here(own):
                    await _close(connection, f"this machine is no longer at {own[0]}")


class MovedPeers:
    """Closes the connection that a peer had when it comes from another address."""

    def __init__(self) -> None:
        self._since: WeakKeyDictionary[INetConn, float] = WeakKeyDictionary()

    async def connected(self, network: INetwork, new: INetConn) -> None:
        """A connection of a peer that may have older ones. Those of two that dialled each other,
        perhaps over IPv4 and IPv6, stay: each side would close another one of them."""
        now = self._since[new] = trio.current_time()
        for old in list(network.get_connections(new.muxed_conn.peer_id)):
            there, before = (_ends(connection)[1] for connection in (new, old))
            if not there or not before or there[0] == before[0]:
                continue
            if now - self._since.get(old, now) > CROSSING:
                await _close(old, f"the peer moved from {before[0]} to {there[0]}")


async def _close(connection: INetConn, why: str) -> None:
    logger.info("closing a connection to %s: %s", str(connection.muxed_conn.peer_id)[-8:], why)
    await close_within(connection, _CLOSE_TIMEOUT)


def _ends(connection: INetConn) -> tuple[Sequence[Any], Sequence[Any]]:
    """The socket addresses of this and the other end; empty where there are none."""
    found = socket_below(connection.muxed_conn)
    try:
        return ((), ()) if found is None else (found.getsockname(), found.getpeername())
    except OSError:  # it has closed meanwhile
        return (), ()


def _is_here(address: Sequence[Any]) -> bool:
    """Whether this machine has the address of a socket."""
    host, _, *scope = address
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0, *scope))
        except OSError:
            return False
    return True
