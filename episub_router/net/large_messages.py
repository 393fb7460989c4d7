"""From a message to signed pieces, and back to the message: all that needs keys and Pubsub."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from episub_router.net.counters import Counters, Reason
from episub_router.net.large_progress import LargeReports
from episub_router.protocol.effects import Assembled
from episub_router.protocol.events import PublishInPieces
from episub_router.protocol.piece_messages import Preamble
from episub_router.protocol.pieces.cutting import MAX_SIZE, cut, joined
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


class LargeMessages:
    """Cuts this node's large messages, checks others' preambles, and puts messages together."""

    def __init__(
        self, pubsub: Pubsub, counters: Counters, reports: LargeReports, threshold: int, most: int
    ) -> None:
        """Messages of `threshold` bytes and more are cut (0: none), up to `most` taken."""
        self._pubsub = pubsub
        self._counters = counters
        self.reports = reports
        self.threshold = threshold
        self.max_size = min(most, MAX_SIZE)
        self._verified: dict[tuple[str, bytes], Preamble] = {}

    @cached_property
    def _cuts(self) -> bool:
        """Whether this node signs its messages, with a key that preambles may have, and their ids
        don't depend on their data."""
        key = self._pubsub.sign_key
        if not self._pubsub.strict_signing or key is None:
            return False
        message = rpc_pb2.Message(from_id=b"author", seqno=bytes(8), data=b"data", topicIDs=["t"])
        return is_for_preambles(key.get_public_key()) and self._has_bare_id(message)

    def may_cut(self, topics: Sequence[str], size: int) -> bool:
        """Whether a message of this node is to be cut, as far as can be told before it is made."""
        return 0 < self.threshold <= size and len(topics) == 1 and self._cuts

    def goes_in_pieces(self, message: rpc_pb2.Message, size: int) -> bool:
        """Whether `message`, which this node publishes, is to be cut: it is large and signed, and
        others can tell its id from its author, seqno and topic."""
        return self.may_cut(message.topicIDs, size) and self._has_bare_id(message)

    def cut(self, message: rpc_pb2.Message, id: bytes, size: int) -> PublishInPieces | None:
        """`message` in pieces; None if it is to go whole."""
        if size > self.max_size or not self.goes_in_pieces(message, size):
            return None
        topic, author, seqno = message.topicIDs[0], message.from_id, message.seqno
        unsigned, pieces = cut(id, source_id(author), message.SerializeToString())
        envelope = sign_preamble(self._pubsub.sign_key, topic, unsigned, author, seqno)
        preamble = replace(unsigned, envelope=envelope)
        self.reports.published(topic, preamble)
        return PublishInPieces(preamble, pieces, message, size)

    def refusal(self, topic: str, preamble: Preamble) -> Reason | None:
        """Why `preamble` isn't taken, counted; None if the author that it names signed it, and the
        message may be so large."""
        reason = self._refusal(topic, preamble)
        if reason is not None:
            self._counters.add(reason)
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
            self._counters.add(Reason.MESSAGE_MISMATCHED)
            return
        self._counters.add(Reason.ASSEMBLED)
        peer: Any = whole.peer
        take_assembled = getattr(self._pubsub, "take_assembled", None)
        if take_assembled is not None:
            take_assembled(ID(peer), message)
        elif not self._pubsub.topic_ids.isdisjoint(message.topicIDs):
            self._pubsub.manager.run_task(self._pubsub.push_msg, ID(peer), message)

    def _put_together(self, topic: str, whole: Assembled) -> rpc_pb2.Message | None:
        envelope = whole.preamble.envelope
        assert isinstance(envelope, Authorship)
        # Bytes that are no Message; and the application's message id function may raise anything.
        with suppress(Exception):
            message = rpc_pb2.Message.FromString(joined(whole.pieces))
            if (
                list(message.topicIDs) == [topic]
                and (message.from_id, message.seqno) == (envelope.author, envelope.seqno)
                and self._pubsub.get_message_id(message) == whole.preamble.id
            ):
                return message
        return None

    def _has_bare_id(self, message: rpc_pb2.Message) -> bool:
        bare = self._bare_id(message.topicIDs[0], message.from_id, message.seqno)
        with suppress(Exception):
            return bare is not None and bare == self._pubsub.get_message_id(message)
        return False

    def _bare_id(self, topic: str, author: bytes, seqno: bytes) -> bytes | None:
        """The id of a message of which only this is known; None if the function needs more."""
        bare = rpc_pb2.Message(from_id=author, seqno=seqno, topicIDs=[topic])
        with suppress(Exception):
            return self._pubsub.get_message_id(bare)
        return None
