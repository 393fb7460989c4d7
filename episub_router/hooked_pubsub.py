"""Pubsub with the hooks that docs/upstream asks for, also where py-libp2p has none.

Each is a method of `Pubsub` with that patch, and goes from here once py-libp2p has it.
"""

from __future__ import annotations

from libp2p.peer.id import ID
from libp2p.pubsub.pb.rpc_pb2 import RPC
from libp2p.pubsub.pubsub import Pubsub


class HookedPubsub(Pubsub):
    """`Pubsub`, whose streams to peers can be opened and ended by a subclass."""

    if not hasattr(Pubsub, "open_peer_stream"):

        async def open_peer_stream(self, peer_id: ID) -> None:
            """Open our stream to a peer, unless there is one. Pubsub calls it for each peer."""
            await super()._handle_new_peer(peer_id)

        async def _handle_new_peer(self, peer_id: ID) -> None:
            await self.open_peer_stream(peer_id)

    if not hasattr(Pubsub, "lose_peer_stream"):

        def lose_peer_stream(self, peer_id: ID, *, keep_subscriptions: bool = False) -> None:
            """Our stream to a peer is gone. Pubsub calls it then, and keeps no subscriptions."""
            topics = [topic for topic, peers in self.peer_topics.items() if peer_id in peers]
            super()._handle_dead_peer(peer_id)
            if keep_subscriptions and topics:
                for topic in topics:
                    self.peer_topics.setdefault(topic, set()).add(peer_id)
                self._peer_subscription_count[peer_id] = len(topics)

        def _handle_dead_peer(self, peer_id: ID) -> None:
            self.lose_peer_stream(peer_id)

    if not hasattr(Pubsub, "announce_later"):

        def announce_later(self, peer_id: ID, topic_id: str) -> None:
            """Announce to a peer that we subscribe to a topic, once there is room in its queue."""
            self._schedule_announce_retry(peer_id, RPC.SubOpts(subscribe=True, topicid=topic_id))
