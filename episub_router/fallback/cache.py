"""The messages that IHAVE names and IWANT gets."""

from __future__ import annotations

from collections.abc import Callable

from libp2p.peer.id import ID
from libp2p.pubsub.mcache import CacheEntry, MessageCache
from libp2p.pubsub.pb import rpc_pb2

from episub_router.fallback.params import FallbackParams


class BoundedCache(MessageCache):
    """py-libp2p's message cache under Pubsub's message ids, bounded in messages and bytes.

    The stock class keys by author and sequence number whatever the application's message id
    function is, so that with another one receivers ask for what they have
    (libp2p 0.8.1, pubsub/mcache.py, `MessageCache.put`).
    """

    def __init__(
        self, params: FallbackParams, message_id: Callable[[rpc_pb2.Message], bytes]
    ) -> None:
        super().__init__(params.gossip_window, params.gossip_history)
        self._params = params
        self._message_id = message_id
        self._bytes = 0
        self._served: dict[bytes, dict[ID, int]] = {}

    def __contains__(self, mid: bytes) -> bool:
        return mid in self.msgs

    def put(self, msg: rpc_pb2.Message) -> None:
        mid = self._message_id(msg)
        if mid in self.msgs:
            return
        self.msgs[mid] = msg
        self._bytes += msg.ByteSize()
        self.history[0].append(CacheEntry(mid, msg.topicIDs))
        while (
            len(self.msgs) > self._params.cache_messages or self._bytes > self._params.cache_bytes
        ):
            oldest = next(slot for slot in reversed(self.history) if slot)
            self._forget(oldest.pop(0).mid)

    def may_serve(self, mid: bytes, peer: ID) -> bool:
        """Whether `mid` is here and `peer` hasn't had it `retransmissions` times; counts."""
        if mid not in self.msgs:
            return False
        times = self._served.setdefault(mid, {})
        times[peer] = times.get(peer, 0) + 1
        return times[peer] <= self._params.retransmissions

    def shift(self) -> None:
        for entry in self.history[-1]:
            self._forget(entry.mid)
        super().shift()

    def _forget(self, mid: bytes) -> None:
        self._bytes -= self.msgs.pop(mid).ByteSize()
        self._served.pop(mid, None)
