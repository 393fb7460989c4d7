"""The host's notifications of connections, for the peer table."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from libp2p.abc import INetConn, INetwork, INotifee
from libp2p.network.connection.swarm_connection import SwarmConn
from libp2p.rcmgr import Direction

from episub_router.net.connections.sockets import notice_silence
from episub_router.net.peers import PeerTable


class ConnectionNotifee(INotifee):
    """Pubsub reports departures only of peers that it has a stream to; the host reports all."""

    def __init__(
        self,
        peers: PeerTable,
        guard: Callable[[str], AbstractContextManager[None]],
        silence_timeout: float,
    ) -> None:
        """`guard` catches what a notification raises, under its name. Connections break when the
        other end has been silent for `silence_timeout` seconds."""
        self._peers = peers
        self._guard = guard
        self._silence_timeout = silence_timeout

    async def connected(self, network: INetwork, conn: INetConn) -> None:
        with self._guard("connected"):
            probed = notice_silence(conn.muxed_conn, self._silence_timeout)
            outbound = isinstance(conn, SwarmConn) and conn.direction is Direction.OUTBOUND
            self._peers.connection_opened(conn.muxed_conn.peer_id, probed, outbound)

    async def disconnected(self, network: INetwork, conn: INetConn) -> None:
        with self._guard("disconnected"):
            self._peers.connection_closed(conn.muxed_conn.peer_id)

    async def _ignored(self, *_: Any, **__: Any) -> None:
        pass

    opened_stream = closed_stream = listen = listen_close = _ignored
