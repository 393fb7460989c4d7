"""From a peer's RPC to events for a topic. Nothing in it is trusted.

An RPC gets here before Pubsub has checked the signature of its payload; `EpisubRouter.publish`
is called later, for valid payloads only.
"""

from __future__ import annotations

import trio
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from episub_router.net.address_book import AddressBook
from episub_router.net.counters import Counters, Reason
from episub_router.net.driver import Driver
from episub_router.net.inbound.leave_gate import LeaveGate
from episub_router.net.outbound.framer import Framer
from episub_router.net.outbound.outbox import Outbox
from episub_router.net.peer import RemotePeer
from episub_router.net.peer_table import PeerTable
from episub_router.net.pieces.large_messages import LargeMessages
from episub_router.protocol.events import PayloadArrived, PayloadRejected, Received
from episub_router.protocol.messages import (
    Disconnect,
    ForwardJoin,
    GetNodes,
    GetTopics,
    Graft,
    IHave,
    Join,
    Leave,
    Message,
    Neighbor,
    NeighborRole,
    Nodes,
    Prune,
    Root,
    Shuffle,
    ShuffleReply,
    Topics,
)
from episub_router.protocol.piece_messages import (
    PIECE_MESSAGES,
    Piece,
    PieceAnnounce,
    PiecePrune,
)
from episub_router.protocol.types import SourceId
from episub_router.wire import Decoded, WireError, decode_frame

_ONLY_MEMBERS_SEND = (
    GetNodes,
    Nodes,
    Join,
    ForwardJoin,
    Neighbor,
    Shuffle,
    ShuffleReply,
    IHave,
    Prune,
    Graft,
    Root,
    *PIECE_MESSAGES,
)
_ONLY_NEIGHBORS_SEND = (Neighbor, IHave, Prune, Graft, Root, *PIECE_MESSAGES)


class Inbound:
    """Checks frames, and feeds what is left of them to the topics' machines."""

    def __init__(
        self,
        pubsub: Pubsub,
        counters: Counters,
        book: AddressBook,
        peers: PeerTable,
        driver: Driver,
        framer: Framer,
        outbox: Outbox,
        large: LargeMessages,
    ) -> None:
        self._pubsub = pubsub
        self._counters = counters
        self._book = book
        self._peers = peers
        self._driver = driver
        self._framer = framer
        self._outbox = outbox
        self._large = large
        self._leaves = LeaveGate()

    def receive(self, peer: RemotePeer, rpc: rpc_pb2.RPC) -> bool:
        """Act on the Episub frame in `rpc`, which `peer` sent; False if it holds none."""
        if self._pubsub.is_peer_blacklisted(peer.id):
            self._counters.add(Reason.BLACKLISTED)
            return True
        try:
            frame = decode_frame(rpc)
        except WireError:
            self._counters.add(Reason.FRAME_UNUSABLE)
            return True
        if frame is not None:
            self._on_frame(peer, frame, rpc)
        return frame is not None

    def _on_frame(self, peer: RemotePeer, frame: Decoded, rpc: rpc_pb2.RPC) -> None:
        self._counters.add(Reason.FRAMES_RECEIVED)
        for fault in frame.faults:
            self._counters.add(fault)
        if not peer.window.accept(frame.seq):
            self._counters.add(Reason.REPLAYED)
            return
        # Each direction negotiates by itself: a peer may have chosen another protocol for its
        # stream from us.
        self._peers.note_episub(peer)
        if self._driver.joined(frame.topic) is None:
            self._answer_stranger(peer, frame)
            return
        for subject, record in frame.records:
            self._book.learn(subject, record, peer.key)
        if any(isinstance(message, _ONLY_MEMBERS_SEND) for message in frame.messages):
            self._refresh_subscription(peer.id, frame.topic)
        for message in frame.messages:
            self._on_message(peer, frame.topic, message)
        if frame.hops is not None:
            self._on_payload(peer.key, frame, rpc.publish[0], frame.hops)

    def _on_message(self, peer: RemotePeer, topic: str, message: Message) -> None:
        if isinstance(message, Root):
            lines = len(message.roots) + len(message.requests)
            message = peer.roots.admit(message, trio.current_time())
            if excess := lines - len(message.roots) - len(message.requests):
                self._counters.add(Reason.ROOTS_EXCESS, excess)
        elif isinstance(message, Leave):
            admitted = self._leaves.admit(peer.key, topic, message)
            if admitted is None:
                self._counters.add(Reason.LEAVE_REFUSED)
                return
            message = admitted
        elif isinstance(message, Neighbor):
            if message.role in (NeighborRole.LIST, NeighborRole.ACCEPT):
                peer.send_window.note_read(trio.current_time())
        elif isinstance(message, PieceAnnounce):
            preamble = message.preamble
            refusal = self._large.refusal(topic, preamble)
            if refusal is not None:
                if refusal is Reason.PREAMBLE_FORGED:
                    # No correct peer passes on what its author didn't sign. Others may take larger
                    # messages, or other keys.
                    self._driver.feed(topic, PayloadRejected(peer.key, preamble.id, forged=True))
                return
        elif isinstance(message, Piece):
            self._counters.add(Reason.PIECES_RECEIVED)
        elif isinstance(message, PiecePrune):
            self._forget_pieces(peer, topic, message.source)
        self._driver.feed(topic, Received(peer.key, message))

    def _forget_pieces(self, peer: RemotePeer, topic: str, source: SourceId) -> None:
        """`peer` is no child any more: what waits for it in vain would keep others waiting."""
        machine = self._driver.joined(topic)
        if machine is not None and machine.pieces is not None and peer.pieces:
            transfers = machine.pieces.transfers.of_source(source)
            peer.pieces.forget(topic, {transfer.preamble.id for transfer in transfers})

    def _on_payload(self, peer: bytes, frame: Decoded, payload: rpc_pb2.Message, hops: int) -> None:
        self._counters.add(Reason.PAYLOADS_RECEIVED)
        try:
            message_id = self._pubsub.get_message_id(payload)
        except Exception:
            # The application's own function; Pubsub will call it too and see for itself.
            self._counters.add(Reason.MESSAGE_ID_FAILED)
            return
        self._driver.feed(frame.topic, PayloadArrived(peer, message_id, hops, frame.tree))

    def _refresh_subscription(self, sender: ID, topic: str) -> None:
        """Pubsub forgets a peer's subscriptions when its own stream to the peer breaks, and
        the peer, which can't know, never announces them again."""
        if sender not in self._pubsub.peer_topics.get(topic, ()):
            announcement = rpc_pb2.RPC.SubOpts(subscribe=True, topicid=topic)
            self._pubsub.handle_subscription(sender, announcement)

    def _answer_stranger(self, peer: RemotePeer, frame: Decoded) -> None:
        """A frame of a topic that we aren't in: end links that the peer wrongly believes in,
        and say so when asked (E12, E21)."""
        self._counters.add(Reason.TOPIC_NOT_JOINED)
        if any(isinstance(message, GetTopics) for message in frame.messages):
            self._answer(peer, frame.topic, Topics(()))
        if frame.hops is not None or any(
            isinstance(message, _ONLY_NEIGHBORS_SEND) for message in frame.messages
        ):
            self._answer(peer, frame.topic, Disconnect(alive=False))

    def _answer(self, peer: RemotePeer, topic: str, message: Message) -> None:
        if self._peers.is_writable(peer):
            self._outbox.send(peer, self._framer.frame(peer, topic, (message,)))
