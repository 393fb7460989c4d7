"""What the kernel knows of a connection over TCP, and does for it."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import trio
from libp2p.abc import IHost
from libp2p.io.trio import TrioTCPStream
from libp2p.peer.id import ID

_LAYERS = ("secured_conn", "conn", "read_writer", "stream")
"""Names by which py-libp2p's layers know the one below."""

_PROBE_AFTER = 2
"""Seconds that a connection receives nothing before the kernel probes it. Chosen: with the default
`silence_timeout`, a quiet link to a peer that is cut off ends after 8 s, too."""

_PROBE_INTERVAL = 2
"""Seconds between two probes."""

_INFO = struct.Struct("=128xQ12xI")
"""Of struct tcp_info (Linux 4.6) tcpi_bytes_received, and tcpi_min_rtt in microseconds."""

_UNMEASURED = 2**32 - 1
"""tcpi_min_rtt before the first acknowledgement."""

_RECEIVED = 64 * 1024
"""Bytes received at once; chosen: a Noise message."""

_FINEST = 0.001
"""Seconds: nearer peers are all alike. Chosen: a hop over py-libp2p takes as long."""


def socket_below(layer: Any) -> trio.socket.SocketType | None:
    """The socket at the bottom of `layer`, a part of py-libp2p's connection; None if it stands on
    no TCP socket."""
    tcp = _tcp_below(layer)
    return None if tcp is None else tcp.stream.socket


def _tcp_below(layer: Any) -> TrioTCPStream | None:
    while layer is not None and not isinstance(layer, TrioTCPStream):
        layer = next((getattr(layer, name) for name in _LAYERS if hasattr(layer, name)), None)
    return layer if layer is not None and isinstance(layer.stream, trio.SocketStream) else None


def pass_at_once(layer: Any) -> None:
    """Spare `layer` turns of the event loop, of which py-libp2p takes six for each Noise message:
    send what the socket takes at once, and receive all that is there.

    A write that has begun goes on when its task is cancelled, if the kernel ends a connection that
    takes nothing (`notice_silence`): after part of a Noise message, or one that was counted and not
    sent, the other end can't decrypt anything."""
    tcp = _tcp_below(layer)
    if tcp is None or os.name != "posix":
        secured = getattr(layer, "secured_conn", None)
        if secured is not None:
            secured.write = _whole(secured.write)
        return
    if "read" in vars(tcp):  # A host may have had another router before, which is notified, too.
        return
    own, write, read, ahead = tcp.stream.socket, _whole(tcp.write), tcp.read, b""

    # What fails, or has no room, is done again in the usual way.
    async def write_at_once(data: bytes) -> None:
        sent = 0
        if not tcp.write_lock.locked():
            with suppress(OSError):
                sent = os.write(own.fileno(), data)
        if sent < len(data):
            await write(data[sent:])

    async def read_at_once(most: int | None = None) -> bytes:
        nonlocal ahead
        if most == 0:
            return b""
        if not ahead:
            with suppress(OSError, ValueError, trio.ClosedResourceError):
                await trio.lowlevel.wait_readable(own.fileno())
                ahead = os.read(own.fileno(), _RECEIVED)
        data = ahead or await read(_RECEIVED)
        most = len(data) if most is None else most
        ahead = data[most:]
        return data[:most]

    shortcut: Any = tcp
    shortcut.write, shortcut.read = write_at_once, read_at_once


def _whole(write: Callable[[bytes], Awaitable[None]]) -> Callable[[bytes], Awaitable[None]]:
    async def whole(data: bytes) -> None:
        with trio.CancelScope(shield=hasattr(socket, "TCP_USER_TIMEOUT")):
            await write(data)

    return whole


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
    return not refused and _info(layer) is not None


def bytes_received(host: IHost, peer: ID) -> int | None:
    """How many bytes have come over the connections to `peer`, as its process wrote them: a kernel
    that acknowledges or answers probes by itself sends none. None where the system doesn't say
    (Linux does)."""
    counts = [received for received, _ in _infos(host, peer)]
    return sum(counts) if counts else None


def shortest_rtt(host: IHost, peer: ID) -> float | None:
    """The shortest round trip to `peer` of late, in seconds, which no load and no delayed
    acknowledgement adds to; None where the system doesn't say (Linux does, of TCP)."""
    rtts = [rtt for _, rtt in _infos(host, peer) if rtt != _UNMEASURED]
    return max(_FINEST, min(rtts) / 1e6) if rtts else None


def _infos(host: IHost, peer: ID) -> Iterator[tuple[int, int]]:
    """Of each connection to `peer` of which the system says it: bytes received, and the shortest
    round trip."""
    for connection in host.get_network().get_connections(peer):
        info = _info(connection.muxed_conn)
        if info is not None:
            yield info


def _info(layer: Any) -> tuple[int, int] | None:
    found = socket_below(layer)
    option = getattr(socket, "TCP_INFO", None)
    if found is None or option is None:
        return None
    # A socket that has closed meanwhile says nothing.
    try:
        info = found.getsockopt(socket.IPPROTO_TCP, option, _INFO.size)
    except OSError:
        return None
    if len(info) < _INFO.size:
        return None
    received, rtt = _INFO.unpack(info)
    return received, rtt


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
