"""Which peers speak Episub.

Each direction negotiates by itself, so one peer may have chosen Episub for its stream to us
while ours to it fell back to gossipsub. Either is enough.
"""

from __future__ import annotations

from libp2p.abc import IHost
from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID

PROTOCOL_ID = TProtocol("/episub/1.0.0")

_MAX_SHOWN = 4096
"""Peers remembered that showed Episub; who is forgotten shows it again with its next frame."""


class Peers:
    """The protocols of our streams, and who showed Episub on its own."""

    def __init__(self) -> None:
        self.protocols: dict[ID, TProtocol] = {}
        """What our stream to each peer negotiated."""
        self._shown: dict[ID, None] = {}

    def speaks_episub(self, peer: ID) -> bool:
        return self.protocols.get(peer) == PROTOCOL_ID or peer in self._shown

    def showed_episub(self, peer: ID) -> None:
        """`peer` sent a frame or announced the extension."""
        self._shown[peer] = None
        if len(self._shown) > _MAX_SHOWN:
            del self._shown[next(iter(self._shown))]

    def opened_episub(self, host: IHost, peer: ID) -> bool:
        """Whether `peer`, not known to speak Episub so far, chose it for a stream to us."""
        return not self.speaks_episub(peer) and any(
            stream.get_protocol() == PROTOCOL_ID
            for connection in host.get_network().get_connections(peer)
            for stream in connection.get_streams()
        )

    def disconnected(self, peer: ID) -> None:
        """The last connection to `peer` closed; it may come back as something else."""
        self._shown.pop(peer, None)
