"""What the embedded GossipSub sees of Pubsub: the peers that are given to it, and no others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from libp2p.abc import IHost, INetStream
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.timed_cache.last_seen_cache import LastSeenCache

from episub_router.fallback.backlog import PatientQueues
from episub_router.net.counters import Counters
from episub_router.net.params import RouterParams
from episub_router.net.view import OnThisSide, PubsubView


class GossipView:
    """The part of `Pubsub` that `GossipSub` uses, less the peers that aren't `served`.

    It is no `Pubsub`, and GossipSub adds its signed peer record to RPCs, and checks those of
    others, only under one: Pubsub has done that already.
    """

    def __init__(
        self, pubsub: Pubsub, served: OnThisSide, params: RouterParams, counters: Counters
    ) -> None:
        part = PubsubView(pubsub, served)
        self._pubsub = pubsub
        self.host: IHost = pubsub.host
        self.peers = part.peers
        self.peer_queues = PatientQueues(part.peer_queues, params, counters)
        self.peer_topics: Mapping[str, set[ID]] = _Subscribers(pubsub, served)

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


class _Subscribers(Mapping[str, set[ID]]):
    """Subscribers by topic. As in Pubsub, a topic without any is not there."""

    def __init__(self, pubsub: Pubsub, served: OnThisSide) -> None:
        self._pubsub = pubsub
        self._served = served

    def __getitem__(self, topic: str) -> set[ID]:
        subscribers = set(filter(self._served, self._pubsub.peer_topics[topic]))
        if not subscribers:
            raise KeyError(topic)
        return subscribers

    def __iter__(self) -> Iterator[str]:
        return (topic for topic in self._pubsub.peer_topics if topic in self)

    def __contains__(self, topic: object) -> bool:
        return isinstance(topic, str) and any(
            map(self._served, self._pubsub.peer_topics.get(topic, ()))
        )

    def __len__(self) -> int:
        return sum(1 for _ in self)
