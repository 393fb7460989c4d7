"""Which peers are gone or have stopped: connections over which nothing comes, though it should.

A machine that is cut off says no goodbye, and TCP alone goes on trying for a quarter of an hour:
the kernel is asked to break its connections sooner. The kernel of a process that has stopped goes
on acknowledging what is sent. A process that runs answers Yamux's pings, which both sides send
every 30 s, and where it speaks py-libp2p's Yamux gives credit back for what it has read. So a peer
from which not one byte has come is reported, for the core to ask it.
"""

from __future__ import annotations

import socket
import struct
from typing import Any

import trio
from libp2p.abc import IHost

from episub_router.net.peers import PeerTable, Quiet, RemotePeer

LOOK_INTERVAL = 1.0
"""Seconds between two looks while something was pushed or waits. Looks are counted, and not
seconds, since an event loop that is behind has few of them."""

LOOKS_PUSHED = 3
"""Looks, `LOOK_INTERVAL` apart, at which nothing has come since a payload went out. Chosen: with
the core's 4 s a process that has stopped is noticed within 10 s."""

_LOOKS_AGAIN = 6
"""The same of a peer that was reported and answered: its Yamux gives credit back less often."""

LOOKS_AT_REST = 3
"""Looks in a row, `REST_INTERVAL` apart, at which nothing has come. Chosen: with two, a ping that
is a little late would count."""

REST_INTERVAL = 15.0
"""Seconds between two looks at all neighbours; chosen: half of the time between two pings."""


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


class SilenceWatch:
    """Looks at the connections of neighbours, as often as its owner calls `look`."""

    def __init__(self, host: IHost, peers: PeerTable) -> None:
        """What seems to have stopped is reported to `peers`, again as long as it does."""
        self._host = host
        self._peers = peers
        self._awaits_answers = False
        """Whether a peer was pushed to and hasn't answered yet."""
        self._due = -float("inf")
        """When all neighbours are looked at next."""

    def note_push(self, peer: RemotePeer) -> None:
        """A payload goes out to `peer`."""
        if peer.pushed is None and peer.probed:
            peer.pushed = self._quiet(peer)
            self._awaits_answers = True

    def look(self) -> float:
        """Report what is silent; how many seconds later at most to call again, or one where that is
        less than one."""
        if self._awaits_answers:
            self._awaits_answers = self._look_at_pushed()
        now = trio.current_time()
        if now >= self._due:
            self._due = now + REST_INTERVAL
            self._look_at_neighbors()
        return LOOK_INTERVAL if self._awaits_answers else self._due - now

    def _look_at_pushed(self) -> bool:
        """Returns whether answers are still awaited."""
        awaited = False
        for peer in self._peers:
            peer.pushed = self._looked_at(peer, peer.pushed)
            if peer.pushed is None:
                continue
            if peer.pushed.looks >= (_LOOKS_AGAIN if peer.was_reported else LOOKS_PUSHED):
                peer.pushed = None
                self._report(peer)
            else:
                awaited = True
        return awaited

    def _look_at_neighbors(self) -> None:
        for peer in self._peers:
            if not (peer.topics and peer.probed):
                peer.at_rest = None
                continue
            peer.at_rest = self._looked_at(peer, peer.at_rest) or self._quiet(peer)
            if peer.at_rest is not None and peer.at_rest.looks >= LOOKS_AT_REST:
                peer.at_rest = None
                self._report(peer)

    def _report(self, peer: RemotePeer) -> None:
        peer.was_reported = True
        self._peers.note_silence(peer)

    def _looked_at(self, peer: RemotePeer, quiet: Quiet | None) -> Quiet | None:
        """`quiet` with one look more; None if something has come since."""
        if quiet is None or self._received(peer) != quiet.received:
            return None
        quiet.looks += 1
        return quiet

    def _quiet(self, peer: RemotePeer) -> Quiet | None:
        received = self._received(peer)
        return None if received is None else Quiet(received)

    def _received(self, peer: RemotePeer) -> int | None:
        """Bytes that have come over the connections to `peer`; None if that is unknown."""
        counts = [
            bytes_received(connection.muxed_conn)
            for connection in self._host.get_network().get_connections(peer.id)
        ]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None
