"""The peers that can be asked over a direct stream."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from episub_router.protocol.types import Time
from episub_router.sds.protocol.effects import PeerRef
from episub_router.sds.protocol.params import SdsParams

PULL_RETRY = 2.0
"""Seconds; doubles up to `pull_timeout` (chosen)."""


@dataclass(slots=True)
class Peer:
    """`failures` in a row keep a peer out of the choice until `not_before`."""

    failures: int = 0
    not_before: Time = 0.0


class StreamPeers:
    """Those that are connected and in the topic, of which the driver tells."""

    def __init__(self, params: SdsParams) -> None:
        self._params = params
        self._peers: dict[PeerRef, Peer] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def __contains__(self, peer: PeerRef) -> bool:
        return peer in self._peers

    def up(self, peer: PeerRef) -> bool:
        """True where the peer is new to us."""
        if peer in self._peers:
            return False
        self._peers[peer] = Peer()
        return True

    def down(self, peer: PeerRef) -> None:
        """`peer` has left."""
        self._peers.pop(peer, None)

    def answered(self, peer: PeerRef) -> None:
        known = self._peers.get(peer)
        if known is not None:
            known.failures = 0

    def failed(self, peer: PeerRef, now: Time) -> None:
        known = self._peers.get(peer)
        if known is not None:
            known.failures += 1
            pause = PULL_RETRY * 2 ** min(known.failures, 6)
            known.not_before = now + min(pause, self._params.heads_interval)

    def all_in(self, peers: Collection[PeerRef]) -> bool:
        """Whether these are all that there are."""
        return all(p in peers for p in self._peers)

    def others(self, peer: PeerRef, now: Time) -> bool:
        """Whether there is somebody else to ask."""
        return any(p != peer and k.not_before <= now for p, k in self._peers.items())

    def ready(self, now: Time) -> list[PeerRef]:
        """Those that may be asked."""
        return [p for p, known in self._peers.items() if known.not_before <= now]
