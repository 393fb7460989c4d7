"""Frames waiting for room in Pubsub's queue."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.rpc_queue import OutBoundQueueSize, RpcQueue

from episub_router.net.counters import Counters
from episub_router.net.outbox import Outbox
from episub_router.net.params import RouterParams
from episub_router.protocol.messages import Gossip, Message, Prune

PEER = ID.from_pubkey(create_new_key_pair(bytes(32)).public_key)


def test_waiting_for_room_takes_no_sequence_ids() -> None:
    """A frame is encoded once, when it enters the queue: polling a full queue would use ids up,
    and what then goes would look like replays to a receiver with a window of 128."""
    queue = RpcQueue()
    encoded: list[tuple[Message, ...]] = []

    def encode(peer: bytes, topic: str, messages: tuple[Message, ...]) -> rpc_pb2.RPC:
        encoded.append(messages)
        return rpc_pb2.RPC()

    pubsub: Any = SimpleNamespace(peers={PEER: None}, peer_queues={PEER: queue})
    outbox = Outbox(pubsub, RouterParams(), Counters(), encode, lambda *_: None)
    key = PEER.to_bytes()
    for number in range(OutBoundQueueSize):
        outbox.send(key, "t", (Gossip(bytes([number]), 1, None),))
    outbox.send(key, "t", (Gossip(b"late", 1, None),))
    outbox.send(key, "t", (Prune(),))
    for _ in range(200):
        outbox.flush(key)
    assert len(encoded) == len(queue) == OutBoundQueueSize
    queue._queue.pop()
    queue._queue.pop()
    outbox.flush(key)
    assert encoded[-2:] == [(Prune(),), (Gossip(b"late", 1, None),)]
    assert not outbox.holds(key)
