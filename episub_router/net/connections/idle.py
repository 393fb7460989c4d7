"""Connections that come and go, and which are ours to close, and when.

The router closes what it opened itself, once no topic has the peer as a neighbour and nothing
else uses the connection, and all connections to a peer that is banned, unless the application or
another topic has protected it. What else the application or the remote side opened stays open.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any
from weakref import WeakSet

import trio
from libp2p.abc import IHost, INetConn, INetStream, INetwork, INotifee
from libp2p.custom_types import TProtocol
from libp2p.network.connection.swarm_connection import SwarmConn
from libp2p.peer.id import ID
from libp2p.rcmgr import Direction

from episub_router.net.connections.closing import close_within
from episub_router.net.connections.kernel import notice_silence, pass_at_once, socket_below
from episub_router.net.connections.moved import MovedPeers
from episub_router.net.connections.ping import PING_PROTOCOL
from episub_router.net.counters import Counters, Ordinary
from episub_router.net.peers import PROTOCOL_ID, PeerTable, RemotePeer
from episub_router.net.tasks import Tasks
from episub_router.util.receive_window import ReceiveWindow

_CLOSE_TIMEOUT = 5.0
"""Seconds; py-libp2p's close takes 0.2."""

_GIVEN_BACK: WeakSet[INetConn] = WeakSet()
"""Connections that ended; a host may have had another router before, which is notified, too."""

_IGNORED = frozenset(
    {PROTOCOL_ID, PING_PROTOCOL, TProtocol("/ipfs/id/1.0.0"), TProtocol("/ipfs/id/push/1.0.0")}
)
"""Our own streams, and those that every connection has now and then."""


@dataclass(eq=False)
class IdleConnections:
    """Closes connections that were released, or that nothing has used for a while."""

    host: IHost
    peers: PeerTable
    counters: Counters
    tasks: Tasks

    async def run(self) -> None:
        while True:
            changed = self.peers.close_due_changed
            due = (peer.close_at for peer in self.peers if peer.close_at is not None)
            with trio.move_on_at(min(due, default=inf)):
                await changed.wait()
            for peer in self.peers:
                if peer.close_at is None or peer.close_at > trio.current_time():
                    continue
                if not self.peers.is_banned(peer) and (
                    peer.is_needed or self._is_used_by_others(peer.id)
                ):
                    self.peers.note_use(peer)
                    continue
                peer.close_at = None
                if not self.host.get_network().is_protected(peer.id):
                    self.tasks.start(self._close, peer)

    def _is_used_by_others(self, target: ID) -> bool:
        network = self.host.get_network()
        if network.is_protected(target):
            return True
        return any(
            # A stream without a protocol is being negotiated, and about to be used.
            stream.get_protocol() not in _IGNORED
            for connection in network.get_connections(target)
            for stream in connection.get_streams()
        )

    async def _close(self, peer: RemotePeer) -> None:
        for connection in list(self.host.get_network().get_connections(peer.id)):
            await close_within(connection, _CLOSE_TIMEOUT)
        self.counters.add(Ordinary.CONNECTIONS_CLOSED)


@dataclass(eq=False)
class ConnectionNotifee(INotifee):
    """Pubsub reports departures only of peers that it has a stream to; the host reports all.
    Connections break when the other end has been silent for `silence_timeout` seconds."""

    peers: PeerTable
    counters: Counters
    silence_timeout: float

    def __post_init__(self) -> None:
        self._moved = MovedPeers()

    async def connected(self, network: INetwork, conn: INetConn) -> None:
        with self.counters.guarded("connected"):
            probed = notice_silence(conn.muxed_conn, self.silence_timeout)
            pass_at_once(conn.muxed_conn)
            outbound = _is(conn, Direction.OUTBOUND)
            self.peers.connection_opened(conn.muxed_conn.peer_id, probed, outbound)
            await self._moved.connected(network, conn)

    async def disconnected(self, network: INetwork, conn: INetConn) -> None:
        with self.counters.guarded("disconnected"):
            self.peers.connection_closed(conn.muxed_conn.peer_id)
            _give_back_slot(network, conn)

    async def opened_stream(self, network: INetwork, stream: INetStream) -> None:
        with self.counters.guarded("opened_stream"):
            ReceiveWindow(stream)

    async def _ignored(self, *_: Any, **__: Any) -> None:
        pass

    closed_stream = listen = listen_close = _ignored


def _give_back_slot(network: Any, connection: INetConn) -> None:
    """libp2p 0.8.1 counts a connection that its listeners took in until the host stops."""
    taken = _is(connection, Direction.INBOUND) and socket_below(connection.muxed_conn) is not None
    if taken and hasattr(network, "_inbound_limiter") and connection not in _GIVEN_BACK:
        _GIVEN_BACK.add(connection)
        network._inbound_limiter.total_tokens += 1


def _is(connection: INetConn, direction: Direction) -> bool:
    return isinstance(connection, SwarmConn) and connection.direction is direction
