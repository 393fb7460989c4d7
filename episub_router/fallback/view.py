"""What the embedded GossipSub sees of Pubsub: the peers of its side, and no others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias, TypeVar

from libp2p.abc import IHost, INetStream
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.timed_cache.last_seen_cache import LastSeenCache

from episub_router.fallback.queues import GossipQueue
from episub_router.net.outbound import Outbound
from episub_router.net.peers import PeerTable

_V = TypeVar("_V")

IsServed: TypeAlias = Callable[[ID], bool]


class GossipView:
    """The part of `Pubsub` that `GossipSub` uses, without the peers that it doesn't serve.

    It is no `Pubsub`, and GossipSub adds its signed peer record to RPCs, and checks those of
    others, only under one: Pubsub has done that already.
    """

    def __init__(
        self, pubsub: Pubsub, is_served: IsServed, peers: PeerTable, outbound: Outbound
    ) -> None:
        self._pubsub = pubsub
        self.host: IHost = pubsub.host
        # Pubsub makes its dictionaries after it has attached its router.
        self.peers: Mapping[ID, INetStream] = _Part(is_served, lambda: pubsub.peers)
        self.peer_queues: Mapping[ID, GossipQueue] = _Part(
            is_served,
            lambda: pubsub.peer_queues,
            lambda peer, queue: GossipQueue(peers[peer.to_bytes()], queue, outbound),
        )
        self.peer_topics: Mapping[str, set[ID]] = _Subscribers(pubsub, is_served)

    @property
    def seen_messages(self) -> LastSeenCache:
        return self._pubsub.seen_messages

    def get_message_id(self, msg: rpc_pb2.Message) -> bytes:
        return self._pubsub.get_message_id(msg)

    async def write_msg(self, stream: INetStream, rpc_msg: rpc_pb2.RPC) -> bool:
        """Queue `rpc_msg`. GossipSub replays messages past the queue, and two tasks that write to
        one Yamux stream mix their frames when they have to wait for the window."""
        queue = self.peer_queues.get(stream.muxed_conn.peer_id)
        if queue is None or rpc_msg.ByteSize() > queue.max_message_size:
            return False
        return queue.push(rpc_msg)


class _Part(Mapping[ID, _V]):
    """Those entries of one of Pubsub's dictionaries whose peers are served, as GossipSub sees
    them."""

    def __init__(
        self,
        is_served: IsServed,
        whole: Callable[[], Mapping[ID, Any]],
        seen_as: Callable[[ID, Any], _V] = lambda _, value: value,
    ) -> None:
        self._is_served = is_served
        self._whole = whole
        self._seen_as = seen_as

    def __getitem__(self, peer: ID) -> _V:
        if not self._is_served(peer):
            raise KeyError(peer)
        return self._seen_as(peer, self._whole()[peer])

    def __iter__(self) -> Iterator[ID]:
        return filter(self._is_served, self._whole())

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Subscribers(Mapping[str, set[ID]]):
    """Subscribers by topic. As in Pubsub, a topic without any is not there."""

    def __init__(self, pubsub: Pubsub, is_served: IsServed) -> None:
        self._pubsub = pubsub
        self._is_served = is_served

    def __getitem__(self, topic: str) -> set[ID]:
        subscribers = set(filter(self._is_served, self._pubsub.peer_topics[topic]))
        if not subscribers:
            raise KeyError(topic)
        return subscribers

    def __iter__(self) -> Iterator[str]:
        return (topic for topic in self._pubsub.peer_topics if topic in self)

    def __contains__(self, topic: object) -> bool:
        return isinstance(topic, str) and any(
            map(self._is_served, self._pubsub.peer_topics.get(topic, ()))
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)
