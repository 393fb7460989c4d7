"""Pubsub's queues as GossipSub sees them, with room for bursts behind them.

Pubsub's queue of a peer holds 32 RPCs, and GossipSub drops what is beyond.
"""

from __future__ import annotations

from dataclasses import dataclass

from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.rpc_queue import RpcQueue

from episub_router.net.outbound import Outbound
from episub_router.net.peers import RemotePeer


@dataclass(frozen=True, slots=True)
class OutgoingRpc:
    """One of GossipSub's RPCs, waiting for room."""

    rpc: rpc_pb2.RPC
    is_control: bool

    @property
    def size(self) -> int:
        return self.rpc.ByteSize()

    def push_to(self, queue: RpcQueue) -> bool:
        """Put it into `queue`; False if the queue is full."""
        return queue.push(self.rpc, priority=self.is_control)


class GossipQueue:
    """What GossipSub uses of a peer's `RpcQueue`. Control RPCs overtake payloads."""

    def __init__(self, peer: RemotePeer, queue: RpcQueue, outbound: Outbound) -> None:
        self._peer = peer
        self._outbound = outbound
        self.max_message_size = queue.max_message_size
        self.split_rpc = queue.split_rpc

    def push(self, rpc: rpc_pb2.RPC, priority: bool = False) -> bool:
        """Queue `rpc`; False if there is no room in the backlog either."""
        return self._outbound.send_rpc(self._peer, OutgoingRpc(rpc, priority))
