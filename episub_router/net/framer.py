"""Turning the core's messages into RPCs: sequence ids and address records are added here (E42)."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import inf

import trio
from libp2p.abc import IHost
from libp2p.peer.id import ID
from libp2p.peer.peerstore import PeerStoreError, env_to_send_in_RPC
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.rpc_queue import OutBoundQueueSize, RpcQueue

from episub_router.net.address_book import AddressBook
from episub_router.net.counters import Counters, Ordinary, Reason
from episub_router.net.peers import RemotePeer
from episub_router.protocol.messages import Disconnect, Gossip, Leave, Message
from episub_router.protocol.piece_messages import Piece
from episub_router.util.bounded import put_last
from episub_router.wire import Frame, encode_frame

_OWN_RECORD_AGE = 1.0
"""Seconds for which this node's record is used again. Measured: py-libp2p takes 61 us for it, and
each receiver of a message of this node's own gets it."""

AGAIN_AFTER = 300.0
"""Seconds after which a record is sent again: the receiver may not have kept it. Chosen: views have
changed by then, and at that rate it costs next to nothing."""

MAX_REMEMBERED = 128
"""Records remembered for one connection, the oldest forgotten first. Chosen: what neighbours name
to each other, their neighbours and most of a passive view, several times."""

_PIECE_ROOM = 4096
"""Bytes that a frame adds to a piece at most: topic, id, root and proof. Its size isn't computed
where they fit anyway, as protobuf serializes it for that."""


class Framer:
    """Makes frames for one receiver each."""

    def __init__(self, host: IHost, book: AddressBook, counters: Counters) -> None:
        self._host = host
        self._book = book
        self.counters = counters
        self._own: tuple[float, bytes] = (-inf, b"")
        """When it was made, and this node's own record."""

    def encode(self, peer: RemotePeer, topic: str, messages: tuple[Message, ...]) -> rpc_pb2.RPC:
        """The RPC for `peer`, with its next sequence id; raises ValueError or TypeError as
        `encode_frame` does."""
        frame = Frame(topic, peer.next_sequence_id(), messages)
        rpc = encode_frame(frame, partial(self._record_for, peer))
        if isinstance(messages[0], Gossip) and messages[0].hops == 1:
            # As GossipSub does: those next to an author have its newest addresses.
            rpc.senderRecord = self.own_record()
        return rpc

    def _record_for(self, peer: RemotePeer, named: bytes) -> bytes | None:
        """The record of `named`, unless `peer` got it lately over its connection: lists, walks and
        samples name the same peers again and again."""
        record, now = self.record(named), trio.current_time()
        sent, at = peer.records_sent.get(named, (None, 0.0))
        if record is None or (record == sent and now < at + AGAIN_AFTER):
            return None
        put_last(peer.records_sent, named, (record, now), MAX_REMEMBERED)
        return record

    def record(self, peer: bytes) -> bytes | None:
        """The signed peer record of `peer`, ourselves included, if we have it."""
        target = ID(peer)
        if target == self._host.get_id():
            return self.own_record()
        # The peerstore has the newest records of those that Pubsub talks to, for a while; asked
        # for one whose addresses have expired, it raises.
        with suppress(PeerStoreError):
            envelope = self._host.get_peerstore().get_peer_record(target)
            if envelope is not None:
                self._book.learn(peer, envelope.marshal_envelope())
        return self._book.record(peer)

    def own_record(self) -> bytes:
        now = trio.current_time()
        if now - self._own[0] >= _OWN_RECORD_AGE:
            self._own = now, env_to_send_in_RPC(self._host)[0]
        return self._own[1]


@dataclass(frozen=True, slots=True)
class OutgoingFrame:
    """Control messages of one topic, or a single Gossip or Piece, for one peer.

    Encoded when there is room in Pubsub's queue: sequence ids have to enter it in their order.
    """

    peer: RemotePeer
    topic: str
    messages: tuple[Message, ...]
    framer: Framer

    @property
    def is_control(self) -> bool:
        return not isinstance(self.messages[0], Gossip | Piece)

    @property
    def _is_piece(self) -> bool:
        return isinstance(self.messages[0], Piece)

    @property
    def size(self) -> int:
        """Payload bytes; control frames are bounded by their number."""
        first = self.messages[0]
        return first.size if isinstance(first, Gossip | Piece) else 0

    @property
    def says_goodbye(self) -> bool:
        """Whether it is still true when we have left its topic."""
        return any(isinstance(message, Disconnect | Leave) for message in self.messages)

    def push_to(self, queue: RpcQueue) -> bool:
        """Encode the frame into `queue`; False if the queue is full."""
        if len(queue) >= OutBoundQueueSize:
            return False
        counters = self.framer.counters
        try:
            rpc = self.framer.encode(self.peer, self.topic, self.messages)
        except Exception:
            # Ids that aren't bytes, a topic that is too long for a frame; whatever else it is, it
            # must not reach Pubsub or the nursery, since the host would stop.
            counters.add(Reason.UNENCODABLE)
            return True
        fits = self._is_piece and self.size + _PIECE_ROOM <= queue.max_message_size
        if not fits and rpc.ByteSize() > queue.max_message_size:
            rpc.ClearField("senderRecord")
            if rpc.ByteSize() > queue.max_message_size:
                # Announcing it instead would only make others ask for what can't be sent.
                counters.add(Reason.OVERSIZE)
                return True
        if not queue.push(rpc, priority=self.is_control):
            return False
        counters.add(Ordinary.FRAMES_SENT)
        if not self.is_control:
            counters.add(Ordinary.PIECES_SENT if self._is_piece else Ordinary.PAYLOADS_SENT)
        return True
