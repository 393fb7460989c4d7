"""From a message to signed pieces, and back to the message: all that needs keys and Pubsub; and how
far large messages have come, for the readers of a topic's events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from episub_router.net.counters import Counters, Ordinary, Reason
from episub_router.net.events import LargeProgress, LargeSent, TopicEvents
from episub_router.net.peers import RemotePeer
from episub_router.net.topics import JoinedTopic
from episub_router.protocol.effects import Assembled
from episub_router.protocol.events import PublishInPieces
from episub_router.protocol.piece_messages import Piece, PieceAnnounce, Preamble
from episub_router.protocol.pieces.cutting import cut, joined
from episub_router.protocol.pieces.transfers import Transfer
from episub_router.protocol.types import MessageId, PeerId
from episub_router.publishing import MessageTooLarge
from episub_router.util.bounded import put_last
from episub_router.wire import (
    Authorship,
    has_key_for_preambles,
    is_for_preambles,
    sign_preamble,
    source_id,
    verify_preamble,
)

_MAX_VERIFIED = 1024
"""Preambles known to be signed, so that the copies of each neighbour cost no check; chosen: many
times what is under way."""

STEPS = 16
"""Reports on one message beside the first; chosen: what a bar shows."""

_MAX_FOLLOWED = 64
"""Messages of this node, the last ones; chosen: as many as may be under way in a topic."""


@dataclass(eq=False)
class LargeMessages:
    """Cuts this node's large messages, checks others' preambles, puts messages together, and
    reports each step of a message once."""

    pubsub: Pubsub
    counters: Counters
    events: TopicEvents
    joined: Mapping[str, JoinedTopic]
    threshold: int
    """Bytes of messages that are cut, and of longer ones; 0: none."""
    max_size: int
    """Bytes of messages that are taken at most."""

    def __post_init__(self) -> None:
        self._verified: dict[tuple[str, bytes], Preamble] = {}
        self._sent: dict[tuple[str, MessageId], dict[PeerId, None]] = {}
        """The neighbours that were sent all of each message of our own."""

    @cached_property
    def _cuts(self) -> bool:
        """Whether this node signs its messages, with a key that preambles may have, and their ids
        don't depend on their data."""
        key = self.pubsub.sign_key
        if not self.pubsub.strict_signing or key is None:
            return False
        message = rpc_pb2.Message(from_id=b"author", seqno=bytes(8), data=b"data", topicIDs=["t"])
        return is_for_preambles(key.get_public_key()) and self._has_bare_id(message)

    def may_cut(self, topics: Sequence[str], size: int) -> bool:
        """Whether a message of this node is to be cut, as far as can be told before it is made."""
        return 0 < self.threshold <= size and len(topics) == 1 and self._cuts

    def goes_in_pieces(self, message: rpc_pb2.Message, size: int) -> bool:
        """Whether `message` of this node, of `size` bytes, is to be cut: it is large and signed,
        others can tell its id from its author, seqno and topic, and this node is in the topic.
        Raises MessageTooLarge if even the pieces would be too many."""
        if (
            not self.may_cut(message.topicIDs, size)
            or message.topicIDs[0] not in self.joined
            or not self._has_bare_id(message)
        ):
            return False
        if size > self.max_size:
            raise MessageTooLarge(size, self.max_size, "pieces", "max_message_size")
        return True

    def cut(self, message: rpc_pb2.Message, id: bytes, size: int) -> PublishInPieces | None:
        """`message` in pieces; None if it is to go whole."""
        if not self.goes_in_pieces(message, size):
            return None
        topic, author, seqno = message.topicIDs[0], message.from_id, message.seqno
        unsigned, pieces = cut(id, source_id(author), message.SerializeToString())
        envelope = sign_preamble(self.pubsub.sign_key, topic, unsigned, author, seqno)
        preamble = replace(unsigned, envelope=envelope)
        self.published(topic, preamble)
        return PublishInPieces(preamble, pieces, message, size)

    def refusal(self, topic: str, preamble: Preamble) -> Reason | None:
        """Why `preamble` isn't taken, counted; None if the author that it names signed it, and the
        message may be so large."""
        reason = self._refusal(topic, preamble)
        if reason is not None:
            self.counters.add(reason)
        return reason

    def _refusal(self, topic: str, preamble: Preamble) -> Reason | None:
        if preamble.size > self.max_size:
            return Reason.PREAMBLE_TOO_LARGE
        id: Any = preamble.id
        if self._verified.get((topic, id)) == preamble:
            return None
        envelope = preamble.envelope
        if (
            not isinstance(envelope, Authorship)
            or self._bare_id(topic, envelope.author, envelope.seqno) != id
        ):
            return Reason.PREAMBLE_FORGED
        if not has_key_for_preambles(envelope):
            return Reason.PREAMBLE_KEY_REFUSED
        if not verify_preamble(topic, preamble):
            return Reason.PREAMBLE_FORGED
        put_last(self._verified, (topic, id), preamble, _MAX_VERIFIED)
        return None

    def take(self, topic: str, whole: Assembled) -> None:
        """Hand the message to Pubsub, as if the peer that brought the last piece had sent it."""
        message = self._put_together(topic, whole)
        if message is None:
            # Its author signed something else; those that passed it on couldn't tell.
            self.counters.add(Reason.MESSAGE_MISMATCHED)
            return
        self.counters.add(Ordinary.ASSEMBLED)
        peer: Any = whole.peer
        take_assembled = getattr(self.pubsub, "take_assembled", None)
        if take_assembled is not None:
            take_assembled(ID(peer), message)
        elif not self.pubsub.topic_ids.isdisjoint(message.topicIDs):
            self.pubsub.manager.run_task(self.pubsub.push_msg, ID(peer), message)

    def _put_together(self, topic: str, whole: Assembled) -> rpc_pb2.Message | None:
        envelope = whole.preamble.envelope
        assert isinstance(envelope, Authorship)
        # Bytes that are no Message; and the application's message id function may raise anything.
        with suppress(Exception):
            message = rpc_pb2.Message.FromString(joined(whole.pieces))
            if (
                list(message.topicIDs) == [topic]
                and (message.from_id, message.seqno) == (envelope.author, envelope.seqno)
                and self.pubsub.get_message_id(message) == whole.preamble.id
            ):
                return message
        return None

    # How far messages have come

    @contextmanager
    def progress(self, topic: str, message: Piece | PieceAnnounce) -> Iterator[None]:
        """Report a step of a message where a preamble or a piece, acted on in here, makes one."""
        id = message.id if isinstance(message, Piece) else message.preamble.id
        transfer = self._transfer(topic, id)
        before = -1 if transfer is None else transfer.have.bit_count()
        yield
        transfer = self._transfer(topic, id)
        if transfer is None or (topic, id) in self._sent:
            return
        preamble, here = transfer.preamble, transfer.have.bit_count()
        envelope: Any = preamble.envelope
        is_step = STEPS * here // preamble.count > STEPS * before // preamble.count
        if is_step and isinstance(envelope, Authorship):
            received = min(here * preamble.piece_size, preamble.size)
            source = ID(envelope.author)
            self.events.emit(LargeProgress(topic, _bytes(id), source, received, preamble.size))

    def published(self, topic: str, preamble: Preamble) -> None:
        put_last(self._sent, (topic, preamble.id), {}, _MAX_FOLLOWED)
        self.events.emit(LargeSent(topic, _bytes(preamble.id), preamble.size, 0))

    def pieces_sent(self, peer: RemotePeer) -> None:
        """All pieces that waited for `peer` have been sent."""
        for (topic, id), peers in self._sent.items():
            transfer = self._transfer(topic, id)
            if transfer is not None and peer.key not in peers and not transfer.lacked_by(peer.key):
                peers[peer.key] = None
                size = transfer.preamble.size
                self.events.emit(LargeSent(topic, _bytes(id), size, len(peers)))

    def _transfer(self, topic: str, id: MessageId) -> Transfer | None:
        joined = self.joined.get(topic)
        pieces = None if joined is None else joined.machine.pieces
        return None if pieces is None else pieces.transfers.get(id)

    # Ids

    def _has_bare_id(self, message: rpc_pb2.Message) -> bool:
        bare = self._bare_id(message.topicIDs[0], message.from_id, message.seqno)
        with suppress(Exception):
            return bare is not None and bare == self.pubsub.get_message_id(message)
        return False

    def _bare_id(self, topic: str, author: bytes, seqno: bytes) -> bytes | None:
        """The id of a message of which only this is known; None if the function needs more."""
        bare = rpc_pb2.Message(from_id=author, seqno=seqno, topicIDs=[topic])
        with suppress(Exception):
            return self.pubsub.get_message_id(bare)
        return None


def _bytes(id: Any) -> bytes:
    """A message's id, as the driver knows it."""
    return bytes(id)
