"""A part of Pubsub's peers: those on one side, Episub's or gossipsub's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias, TypeVar

from libp2p.abc import INetStream
from libp2p.peer.id import ID
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.rpc_queue import RpcQueue

_V = TypeVar("_V")

OnThisSide: TypeAlias = Callable[[ID], bool]


class PubsubView:
    """The streams and queues of those of Pubsub's peers that are `on_this_side`."""

    def __init__(self, pubsub: Pubsub, on_this_side: OnThisSide) -> None:
        # Pubsub makes its dictionaries after it has attached its router.
        self.peers: Mapping[ID, INetStream] = _Part(lambda: pubsub.peers, on_this_side)
        self.peer_queues: Mapping[ID, RpcQueue] = _Part(lambda: pubsub.peer_queues, on_this_side)


class _Part(Mapping[ID, _V]):
    def __init__(self, whole: Callable[[], Mapping[ID, _V]], on_this_side: OnThisSide) -> None:
        self._whole = whole
        self._on_this_side = on_this_side

    def __getitem__(self, peer: ID) -> _V:
        if not self._on_this_side(peer):
            raise KeyError(peer)
        return self._whole()[peer]

    def __iter__(self) -> Iterator[ID]:
        return filter(self._on_this_side, self._whole())

    def __len__(self) -> int:
        return sum(1 for _ in self)
