"""The peers that can be asked over a direct stream."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from episub_router.protocol.types import Time
from episub_router.sds.protocol.effects import PeerRef
from episub_router.sds.protocol.params import SdsParams
from episub_router.util.bounded import put_last

PULL_RETRY = 2.0
"""Seconds; doubles up to `pull_timeout` (chosen)."""


_FURTHER = 4096
"""Peers beyond `peers_limit` that are kept in mind (chosen)."""


@dataclass(slots=True)
class Peer:
    """`failures` in a row keep a peer out of the choice until `not_before`."""

    failures: int = 0
    not_before: Time = 0.0


class StreamPeers:
    """At most `peers_limit` peers; further ones are asked when one of those has left."""

    def __init__(self, params: SdsParams) -> None:
        self._params = params
        self._peers: dict[PeerRef, Peer] = {}
        self._further: dict[PeerRef, None] = {}

    def __len__(self) -> int:
        return len(self._peers)

    def __contains__(self, peer: PeerRef) -> bool:
        return peer in self._peers

    def up(self, peer: PeerRef) -> bool:
        """True where the peer is new to us and there is room for it."""
        if peer in self._peers:
            return False
        if len(self._peers) >= self._params.peers_limit:
            put_last(self._further, peer, None, _FURTHER)
            return False
        self._further.pop(peer, None)
        self._peers[peer] = Peer()
        return True

    def down(self, peer: PeerRef) -> PeerRef | None:
        """`peer` has left. A further one that can be asked in its place, if there is one."""
        self._further.pop(peer, None)
        left = self._peers.pop(peer, None)
        return next(iter(self._further), None) if left is not None else None

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
