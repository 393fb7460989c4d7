"""From a peer's RPC to events for a topic. Nothing in it is trusted.

An RPC gets here before Pubsub has checked the signature of its payload; `Payloads.publish` is
called later, for valid payloads only.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import trio
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from episub_router.net.address_book import AddressBook
from episub_router.net.counters import Counters, Ordinary, Reason
from episub_router.net.framer import OutgoingFrame
from episub_router.net.large_messages import LargeMessages
from episub_router.net.outbound import Outbound
from episub_router.net.peers import PeerTable, RemotePeer
from episub_router.net.topics import TopicDriver
from episub_router.protocol import messages as m
from episub_router.protocol.events import PayloadArrived, PayloadRejected, Received
from episub_router.protocol.piece_messages import PIECE_MESSAGES, Piece, PieceAnnounce, PiecePrune
from episub_router.protocol.types import SourceId
from episub_router.wire import Decoded, WireError, decode_frame
from episub_router.wire.leave_gate import LeaveGate
from episub_router.wire.root_gate import RootGate

_ONLY_NEIGHBORS_SEND = (m.Neighbor, m.IHave, m.Prune, m.Graft, m.Root, *PIECE_MESSAGES)
_ONLY_MEMBERS_SEND = (
    *(m.GetNodes, m.Nodes, m.Join, m.ForwardJoin, m.Shuffle, m.ShuffleReply),
    *_ONLY_NEIGHBORS_SEND,
)


@dataclass(eq=False)
class Inbound:
    """Checks frames, and feeds what is left of them to the topics' machines."""

    pubsub: Pubsub
    counters: Counters
    book: AddressBook
    peers: PeerTable
    topics: TopicDriver
    outbound: Outbound
    large: LargeMessages

    def __post_init__(self) -> None:
        self._leaves = LeaveGate()
        self._roots = RootGate()

    def receive(self, peer: RemotePeer, rpc: rpc_pb2.RPC) -> bool:
        """Act on the Episub frame in `rpc`, which `peer` sent; False if it holds none."""
        if self.pubsub.is_peer_blacklisted(peer.id):
            self.counters.add(Reason.BLACKLISTED)
            return True
        try:
            frame = decode_frame(rpc)
        except WireError:
            self.counters.add(Reason.FRAME_UNUSABLE)
            return True
        if frame is not None:
            self._on_frame(peer, frame, rpc)
        return frame is not None

    def _on_frame(self, peer: RemotePeer, frame: Decoded, rpc: rpc_pb2.RPC) -> None:
        self.counters.add(Ordinary.FRAMES_RECEIVED)
        for fault in frame.faults:
            self.counters.add(fault)
        if not peer.window.accept(frame.seq):
            self.counters.add(Reason.REPLAYED)
            return
        # Each direction negotiates by itself: a peer may have chosen another protocol for its
        # stream from us.
        self.peers.note_episub(peer)
        if frame.topic not in self.topics.joined:
            self._answer_stranger(peer, frame)
            return
        for subject, record in frame.records:
            self.book.learn(subject, record, peer.key)
        if any(isinstance(message, _ONLY_MEMBERS_SEND) for message in frame.messages):
            self._refresh_subscription(peer.id, frame.topic)
        for message in frame.messages:
            admitted = self._admit(peer, frame.topic, message)
            if admitted is None:
                continue
            step: AbstractContextManager[None] = nullcontext()
            if isinstance(admitted, Piece | PieceAnnounce):
                step = self.large.progress(frame.topic, admitted)
            with step:
                self.topics.feed(frame.topic, Received(peer.key, admitted))
        if frame.hops is not None:
            self._on_payload(peer.key, frame, rpc.publish[0], frame.hops)

    def _admit(self, peer: RemotePeer, topic: str, message: m.Message) -> m.Message | None:
        """What of `message` the machine gets."""
        if isinstance(message, m.Root):
            lines = len(message.roots) + len(message.requests)
            message = self._roots.admit(peer.key, message, trio.current_time())
            if excess := lines - len(message.roots) - len(message.requests):
                self.counters.add(Reason.ROOTS_EXCESS, excess)
        elif isinstance(message, m.Leave):
            admitted = self._leaves.admit(peer.key, topic, message)
            if admitted is None:
                self.counters.add(Reason.LEAVE_REFUSED)
            return admitted
        elif isinstance(message, m.IHave):
            return message if self.topics.may_ask(topic) else None
        elif isinstance(message, m.Neighbor):
            if message.role in (m.NeighborRole.LIST, m.NeighborRole.ACCEPT):
                peer.send_window.note_read(trio.current_time())
        elif isinstance(message, PieceAnnounce):
            refusal = self.large.refusal(topic, message.preamble)
            if refusal is Reason.PREAMBLE_FORGED:
                # No correct peer passes on what its author didn't sign. Others may take larger
                # messages, or other keys.
                rejected = PayloadRejected(peer.key, message.preamble.id, forged=True)
                self.topics.feed(topic, rejected)
            if refusal is not None:
                return None
        elif isinstance(message, Piece):
            self.counters.add(Ordinary.PIECES_RECEIVED)
        elif isinstance(message, PiecePrune):
            self._forget_pieces(peer, topic, message.source)
        return message

    def _forget_pieces(self, peer: RemotePeer, topic: str, source: SourceId) -> None:
        """`peer` is no child any more: what still waits for it would keep others waiting."""
        machine = self.topics.machine(topic)
        if machine is not None and machine.pieces is not None and peer.backlog.pieces:
            transfers = machine.pieces.transfers.of_source(source)
            ids = [transfer.preamble.id for transfer in transfers]
            for item in peer.backlog.forget_pieces(topic, ids):
                if isinstance(item, OutgoingFrame) and isinstance(item.messages[0], Piece):
                    machine.pieces.not_sent(item.messages[0], peer.key)

    def _on_payload(self, peer: bytes, frame: Decoded, payload: rpc_pb2.Message, hops: int) -> None:
        self.counters.add(Ordinary.PAYLOADS_RECEIVED)
        try:
            message_id = self.pubsub.get_message_id(payload)
        except Exception:
            # The application's own function; Pubsub will call it too and see for itself.
            self.counters.add(Reason.MESSAGE_ID_FAILED)
            return
        self.topics.feed(frame.topic, PayloadArrived(peer, message_id, hops, frame.tree))

    def _refresh_subscription(self, sender: ID, topic: str) -> None:
        """Pubsub forgets a peer's subscriptions when its own stream to the peer breaks, and
        the peer, which can't know, never announces them again."""
        if sender not in self.pubsub.peer_topics.get(topic, ()):
            announcement = rpc_pb2.RPC.SubOpts(subscribe=True, topicid=topic)
            self.pubsub.handle_subscription(sender, announcement)

    def _answer_stranger(self, peer: RemotePeer, frame: Decoded) -> None:
        """A frame of a topic that we aren't in: end links that the peer wrongly believes in,
        and say so when asked (E12, E21)."""
        self.counters.add(Reason.TOPIC_NOT_JOINED)
        answers: list[m.Message] = []
        if any(isinstance(message, m.GetTopics) for message in frame.messages):
            answers.append(m.Topics(()))
        if frame.hops is not None or any(
            isinstance(message, _ONLY_NEIGHBORS_SEND) for message in frame.messages
        ):
            answers.append(m.Disconnect(alive=False))
        if answers and self.peers.is_writable(peer):
            self.outbound.send(peer, frame.topic, tuple(answers))
