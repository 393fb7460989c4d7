"""What becomes of the messages that go through Pubsub's `push_msg`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from libp2p.peer.id import ID
from libp2p.pubsub.pb.rpc_pb2 import Message
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.validators import signature_validator

from episub_router.trace.node import NodeTrace


@dataclass(slots=True)
class _Push:
    forwarder: ID
    settled: bool = False


class Pushes:
    """Follows each message until its fate is in the trace: delivered, repeated or rejected.

    `push_msg` reports nothing; the methods that it calls on the way notify this object.
    """

    def __init__(self, pubsub: Pubsub, trace: NodeTrace) -> None:
        self._pubsub = pubsub
        self._trace = trace
        self._under_way: dict[int, _Push] = {}
        """By the identity of the message object."""

    @contextmanager
    def follow(self, forwarder: ID, message: Message) -> Iterator[None]:
        """`push_msg` is at work on `message`."""
        known = self._pubsub.seen_messages.has(self._pubsub.get_message_id(message))
        push = self._under_way[id(message)] = _Push(forwarder)
        try:
            yield
        except Exception:
            if not push.settled:
                self._trace.rejected(message, forwarder, "validation failed")
            raise
        finally:
            del self._under_way[id(message)]
        if not push.settled:
            blacklisted = self._blacklisted(forwarder, message)
            if known and not blacklisted:
                self._trace.repeated(message, forwarder)
            else:
                reason = blacklisted or self._unsigned(message) or "validation ignored"
                self._trace.rejected(message, forwarder, reason)

    def accepted(self, message: Message) -> None:
        """It is valid and new."""
        push = self._settle(message)
        if push is not None:
            if push.forwarder == self._pubsub.my_id:
                self._trace.published(message)
            self._trace.delivered(message, push.forwarder)

    def overtaken(self, message: Message) -> None:
        """Another copy was accepted while this one was in validation."""
        push = self._settle(message)
        if push is not None:
            self._trace.repeated(message, push.forwarder)

    def invalid(self, message: Message) -> None:
        """A validator refused it."""
        push = self._settle(message)
        if push is not None:
            self._trace.rejected(message, push.forwarder, "validation failed")

    def _settle(self, message: Message) -> _Push | None:
        push = self._under_way.get(id(message))
        if push is not None:
            push.settled = True
        return push

    def _blacklisted(self, forwarder: ID, message: Message) -> str | None:
        if self._pubsub.is_peer_blacklisted(forwarder):
            return "blacklisted peer"
        if self._pubsub.is_peer_blacklisted(ID(message.from_id)):
            return "blacklisted source"
        return None

    def _unsigned(self, message: Message) -> str | None:
        if not self._pubsub.strict_signing:
            return None
        if not message.signature:
            return "missing signature"
        return None if signature_validator(message) else "invalid signature"
