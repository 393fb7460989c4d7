"""Which messages go to which gossipsub peer, and what names them.

A message never goes to its author, nor does its id in an IHAVE: go-libp2p-pubsub counts each
message of its own that comes back as an invalid one of the sender, and a peer that came back
without its memory asks for what an IHAVE names.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from episub_router.fallback.cache import BoundedCache
from episub_router.net.payloads import Replay
from episub_router.protocol.messages import Gossip

IDONTWANT_SIZE = 1024
"""Bytes of payload from which IDONTWANT goes out; go-libp2p-pubsub: IDontWantMessageThreshold
1024, rust-libp2p: idontwant_message_size_threshold 1000."""


class MessageSender(GossipSub):
    """The part of GossipSub that sends messages, in a form of our own."""

    mcache: BoundedCache
    own_record: Callable[[], bytes] | None = None
    """This node's signed peer record, which goes along with its own messages."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unsent = Replay()
        """Own messages that nobody was there for, which outlive the cache."""

    if not hasattr(GossipSub, "receivers"):

        def receivers(
            self, topic_ids: Iterable[str], msg_forwarder: ID, origin: ID, msg_id: bytes
        ) -> Iterable[ID]:
            """The peers that a message goes to; GossipSub's with a patch of docs/upstream."""
            return self._get_peers_to_send(topic_ids, msg_forwarder, origin, msg_id)

    if not hasattr(GossipSub, "owes_control"):

        def owes_control(self, peer_id: ID) -> bool:
            """Whether control waits for the next RPC to a peer; GossipSub's with a patch."""
            return peer_id in self._pending_control

    async def publish(self, msg_forwarder: ID, pubsub_msg: rpc_pb2.Message) -> None:
        """Without queues for peers that aren't in the topic, for which there is replay, and
        without limits on how many messages an author or a forwarder may send."""
        pubsub = self._pubsub()
        message_id = pubsub.get_message_id(pubsub_msg)
        self.mcache.put(pubsub_msg)
        author = ID(pubsub_msg.from_id)
        receivers = list(
            self.receivers(
                pubsub_msg.topicIDs, msg_forwarder=msg_forwarder, origin=author, msg_id=message_id
            )
        )
        if len(pubsub_msg.data) >= IDONTWANT_SIZE and msg_forwarder != pubsub.host.get_id():
            await self._say_unwanted(message_id, pubsub_msg.topicIDs, {msg_forwarder, author})
        for topic in pubsub_msg.topicIDs:
            for observer in self.topic_observation.get_observers(topic):
                await self.emit_ihave(topic, [message_id], observer)
        own = msg_forwarder == pubsub.host.get_id()
        if own and not receivers:
            for topic in pubsub_msg.topicIDs:
                kept = Gossip(message_id, 1, pubsub_msg, pubsub_msg.ByteSize())
                self._unsent.remember(topic, kept)
        if receivers:
            rpc = rpc_pb2.RPC(publish=[pubsub_msg])
            if own and self.own_record is not None:
                rpc.senderRecord = self.own_record()
            for peer in receivers:
                self.send_rpc(peer, rpc)
        now = int(time.time())
        for topic in pubsub_msg.topicIDs:
            if topic not in self.mesh:
                self.time_since_last_publish[topic] = now

    def send_rpc(self, peer_id: ID, rpc: rpc_pb2.RPC, priority: bool = False) -> None:
        """Without copies of a message that goes to several peers as it is."""
        queue = self._pubsub().peer_queues.get(peer_id)
        if queue is None:
            return
        if (
            priority
            or self.owes_control(peer_id)
            or rpc.ByteSize() > queue.max_message_size
            or not queue.push(rpc)
        ):
            super().send_rpc(peer_id, rpc, priority)

    async def _say_unwanted(
        self, message_id: bytes, topics: Iterable[str], have_it: set[ID]
    ) -> None:
        """IDONTWANT to those in the mesh that understand it and may yet send the message."""
        chosen = {peer for topic in topics for peer in self.mesh.get(topic, ())} - have_it
        for peer in chosen:
            if self.supports_protocol_feature(peer, "idontwant"):
                await self.emit_idontwant([message_id], peer)

    async def send_recent_messages(self, peer_id: ID, topic: str) -> None:
        """Send a peer that has just subscribed, or become writable, what the cache has of
        `topic` from others than itself, and what waits for the first peer."""
        found = self.mcache.foreign(self.mcache.window(topic), peer_id)
        recent = {message_id: self.mcache.msgs[message_id] for message_id in found}
        waiting: dict[Any, Any] = {g.id: g.payload for g in self._unsent.take(topic, peer_id)}
        for message in (waiting | recent).values():
            self.send_rpc(peer_id, rpc_pb2.RPC(publish=[message]))

    async def handle_iwant(self, iwant_msg: rpc_pb2.ControlIWant, sender_peer_id: ID) -> None:
        """Answer every IWANT: go-libp2p-pubsub counts an announced message that doesn't come as
        a broken promise. What one peer can ask for is bounded by the cache: each id three times.

        GossipSub answers ten a second and peer, and an id a thousand times if it is named a
        thousand times."""
        wanted = [
            self.mcache.msgs[message_id]
            for message_id in dict.fromkeys(iwant_msg.messageIDs)
            if self.mcache.may_serve(message_id, sender_peer_id)
        ]
        if wanted:
            self.send_rpc(sender_peer_id, rpc_pb2.RPC(publish=wanted))

    def gossip_heartbeat(self) -> dict[ID, dict[str, list[bytes]]]:  # type: ignore[override]
        """A peer is sent no id of a message of its own."""
        gossip = {}
        for peer, by_topic in super().gossip_heartbeat().items():
            foreign = {topic: self.mcache.foreign(ids, peer) for topic, ids in by_topic.items()}
            if named := {topic: ids for topic, ids in foreign.items() if ids}:
                gossip[peer] = named
        return gossip

    def _pubsub(self) -> Pubsub:
        assert self.pubsub is not None
        return self.pubsub
