"""What the kernel knows of a connection: whether anything comes back.

A machine that is cut off says no goodbye, and TCP alone goes on trying for a quarter of an hour.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

import trio

_LAYERS = ("secured_conn", "conn", "read_writer", "stream")
"""Names by which py-libp2p's layers know the one below."""

_PROBE_AFTER = 2
"""Seconds that a connection receives nothing before the kernel probes it. Chosen: with the default
`silence_timeout`, a quiet link to a peer that is cut off ends after 8 s, too."""

_PROBE_INTERVAL = 2
"""Seconds between two probes."""


_BYTES_RECEIVED = struct.Struct("=Q")
_BYTES_RECEIVED_AT = 128
"""Where struct tcp_info has tcpi_bytes_received (Linux 4.1)."""


def socket_below(layer: Any) -> trio.socket.SocketType | None:
    """The socket at the bottom of `layer`, a part of py-libp2p's connection; None if it stands on
    no TCP socket."""
    while layer is not None and not isinstance(layer, trio.SocketStream):
        layer = next((getattr(layer, name) for name in _LAYERS if hasattr(layer, name)), None)
    return None if layer is None else layer.socket


def notice_silence(layer: Any, seconds: float) -> bool:
    """Have the kernel break the connection when its other end acknowledges nothing of what was
    sent for `seconds`, or answers no probe. Does what the system can of that; returns whether
    quiet connections are probed, and `bytes_received` tells whether anything comes."""
    found = socket_below(layer)
    if found is None:
        return False
    _set(found, socket.IPPROTO_TCP, "TCP_USER_TIMEOUT", round(seconds * 1000))
    # It bounds the probes, too. Where there is none, their number does.
    probes = max(1, round(seconds / _PROBE_INTERVAL))
    options = (
        (socket.IPPROTO_TCP, "TCP_KEEPIDLE", _PROBE_AFTER),
        (socket.IPPROTO_TCP, "TCP_KEEPINTVL", _PROBE_INTERVAL),
        (socket.IPPROTO_TCP, "TCP_KEEPCNT", probes),
        (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    )
    refused = [name for level, name, value in options if not _set(found, level, name, value)]
    return not refused and bytes_received(layer) is not None


def bytes_received(layer: Any) -> int | None:
    """How many bytes have come over the connection, as the other end's process wrote them: a kernel
    that acknowledges or answers probes by itself sends none. None where the system doesn't say
    (Linux does)."""
    found = socket_below(layer)
    option = getattr(socket, "TCP_INFO", None)
    if found is None or option is None:
        return None
    length = _BYTES_RECEIVED_AT + _BYTES_RECEIVED.size
    # A socket that has closed meanwhile says nothing.
    try:
        info = found.getsockopt(socket.IPPROTO_TCP, option, length)
    except OSError:
        return None
    if len(info) < length:
        return None
    count: int = _BYTES_RECEIVED.unpack_from(info, _BYTES_RECEIVED_AT)[0]
    return count


def _set(found: trio.socket.SocketType, level: int, name: str, value: int) -> bool:
    """Whether the system has the option `name`, and took it."""
    option = getattr(socket, name, None)
    if option is None:
        return False
    # A socket that has closed meanwhile takes none.
    try:
        found.setsockopt(level, option, value)
    except OSError:
        return False
    return True
