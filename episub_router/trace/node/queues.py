"""Pubsub's outbound queues, watched: what goes in, what doesn't, and when streams come and go."""

from __future__ import annotations

from functools import partial
from typing import Any

from libp2p.peer.id import ID
from libp2p.pubsub.pb.rpc_pb2 import RPC
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.rpc_queue import RpcQueue

from episub_router.trace.node import NodeTrace


class TracedQueues(dict[ID, RpcQueue]):
    """To stand in the place of `Pubsub.peer_queues`, which has a queue for each open stream."""

    def __init__(self, pubsub: Pubsub, trace: NodeTrace) -> None:
        super().__init__()
        self._pubsub = pubsub
        self._trace = trace

    def __setitem__(self, peer: ID, queue: RpcQueue) -> None:
        stream = self._pubsub.peers.get(peer)
        protocol = stream.get_protocol() if stream is not None else None
        self._trace.stream_opened(peer, str(protocol or ""))
        # Whatever is sent goes through `push`.
        setattr(queue, "push", partial(self._push, peer, queue.push))  # noqa: B010 (for mypy)
        super().__setitem__(peer, queue)

    def pop(self, peer: ID, *default: Any) -> Any:
        if peer in self:
            self._trace.stream_closed(peer)
        return super().pop(peer, *default)

    def _push(self, peer: ID, push: Any, rpc: RPC, priority: bool = False) -> bool:
        taken: bool = push(rpc, priority)
        if taken:
            self._trace.rpc_sent(rpc, peer)
        else:
            self._trace.rpc_dropped(rpc, peer)
        return taken
