"""Turning the core's messages into RPCs: sequence ids and address records are added here."""

from __future__ import annotations

import time
from contextlib import suppress

from libp2p.abc import IHost
from libp2p.peer.id import ID
from libp2p.peer.peerstore import PeerStoreError, env_to_send_in_RPC
from libp2p.pubsub.pb import rpc_pb2

from episub_router.net.address_book import AddressBook
from episub_router.net.replay import SequenceIds
from episub_router.protocol.messages import Message
from episub_router.wire import Frame, encode_frame


class Framer:
    """Makes frames for one receiver each (E42)."""

    def __init__(self, host: IHost, book: AddressBook) -> None:
        self._host = host
        self._book = book
        self._sequence = SequenceIds(time.time_ns())

    def encode(self, peer: bytes, topic: str, messages: tuple[Message, ...]) -> rpc_pb2.RPC:
        """The RPC for `peer`; raises ValueError or TypeError as `encode_frame` does."""
        return encode_frame(Frame(topic, self._sequence.next(peer), messages), self.record)

    def record(self, peer: bytes) -> bytes | None:
        """The signed peer record of `peer`, ourselves included, if we have it."""
        target = ID(peer)
        if target == self._host.get_id():
            return env_to_send_in_RPC(self._host)[0]
        # The peerstore has the newest records of those that Pubsub talks to, for a while; asked
        # for one whose addresses have expired, it raises.
        with suppress(PeerStoreError):
            envelope = self._host.get_peerstore().get_peer_record(target)
            if envelope is not None:
                self._book.learn(peer, envelope.marshal_envelope())
        return self._book.record(peer)
