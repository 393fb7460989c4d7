"""The gossipsub side of a node: which peers it has, and what crosses over."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import trio
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo
from libp2p.pubsub.extensions import ExtensionsState
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from episub_router.fallback.contained import ContainedGossipSub
from episub_router.fallback.params import FallbackParams
from episub_router.fallback.view import GossipView
from episub_router.net.counters import Reason
from episub_router.net.node import NodeParts
from episub_router.net.peers import PeerListener, RemotePeer
from episub_router.publishing import largest_message

_INFORMANT = b"peer exchange"
"""All that are named so have one share of the address book, and one budget of dials."""


class Bridge(PeerListener):
    """Serves peers without Episub through an embedded GossipSub.

    Pubsub hands each message to the router once, whichever side it came from; `publish` takes
    it to this side. Its methods may raise; the router catches.
    """

    def __init__(
        self,
        pubsub: Pubsub,
        params: FallbackParams,
        extensions: ExtensionsState,
        node: NodeParts,
        direct_peers: Iterable[PeerInfo] = (),
    ) -> None:
        """`node` has the other side, and what both share."""
        self._pubsub = pubsub
        self._params = params
        self._node = node
        self._gossip = ContainedGossipSub(
            params,
            extensions,
            pubsub.get_message_id,
            note_link=node.topics.links_changed.unpark_all,
            connect_to=self._connect_to,
            is_bridged=node.payloads.subscribers,
            direct_peers=direct_peers,
        )
        self._gossip.own_record = node.framer.own_record
        view: Any = GossipView(pubsub, self.serves, node.peers, node.outbound)
        self._gossip.attach(view)
        node.peers.listen(self)
        node.room.receivers.append(self._receivers)

    def serves(self, peer: ID) -> bool:
        """Whether `peer` is on this side."""
        return peer in self._gossip.peer_protocol

    @property
    def mesh(self) -> dict[str, set[ID]]:
        """Joined topics and the mesh of each on this side."""
        return self._gossip.mesh

    @property
    def fanout(self) -> dict[str, set[ID]]:
        """Topics published to without joining, and the peers of this side chosen for each."""
        return self._gossip.fanout

    def _receivers(self, topic: str) -> list[RemotePeer]:
        """Those that a message of ours in `topic` goes to at once."""
        chosen = self.mesh.get(topic) or self.fanout.get(topic) or set()
        return [self._node.peers[peer.to_bytes()] for peer in chosen]

    async def run(self) -> None:
        """Heartbeats, until cancelled."""
        while True:
            await self._gossip.wait_for_work()
            with self._node.counters.guarded("a GossipSub heartbeat"):
                await self._gossip.beat()
            await trio.sleep(self._params.heartbeat_interval)

    def _connect_to(self, named: Sequence[rpc_pb2.PeerInfo]) -> None:
        """Connect to peers that a PRUNE named, if they signed the addresses themselves (gossipsub
        v1.1, peer exchange)."""
        node = self._node
        for info in named:
            if node.book.learn(info.peerID, info.signedPeerRecord, _INFORMANT):
                node.dialer.connect_for_others(info.peerID)

    def gossipsub_peer_added(self, peer: RemotePeer) -> None:
        """`peer` has a stream over one of `params.protocols`, and speaks no Episub."""
        if peer.protocol is not None:
            self._gossip.add_peer(peer.id, peer.protocol)

    def gossipsub_peer_removed(self, peer: RemotePeer) -> None:
        """`peer` is gone, or has turned out to speak Episub."""
        self._gossip.remove_peer(peer.id)

    async def peer_subscribed(self, peer: ID, topic: str) -> None:
        if self.serves(peer):
            await self._gossip.on_peer_subscribed(peer, topic)

    async def replay(self, peer: ID, topic: str) -> None:
        """Send `peer` the messages of the last heartbeats."""
        if self.serves(peer):
            await self._gossip.send_recent_messages(peer, topic)

    async def receive(self, rpc: rpc_pb2.RPC, sender: ID) -> None:
        """Act on gossipsub control messages."""
        if self._pubsub.is_peer_blacklisted(sender):
            self._node.counters.add(Reason.BLACKLISTED)
        else:
            await self._gossip.handle_rpc(rpc, sender)

    async def publish(self, forwarder: ID, message: rpc_pb2.Message) -> None:
        """Send a valid message, ours or anybody's, to the peers of this side, once."""
        limit = largest_message(message.topicIDs, self._pubsub.max_inbound_rpc_size)
        if message.ByteSize() > limit:
            # It came in pieces, or goes in pieces: here a peer would reset the stream for it.
            if self._gossip.peer_protocol:
                self._node.counters.add(Reason.OVERSIZE)
            return
        # Under the stock Pubsub copies that are validated side by side all get here.
        if self._pubsub.get_message_id(message) not in self._gossip.mcache:
            await self._gossip.publish(forwarder, message)

    async def join(self, topic: str) -> None:
        await self._gossip.join(topic)

    async def leave(self, topic: str) -> None:
        await self._gossip.leave(topic)
