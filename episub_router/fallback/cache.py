"""The messages that IHAVE names and IWANT gets."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from libp2p.peer.id import ID
from libp2p.pubsub.mcache import CacheEntry, MessageCache
from libp2p.pubsub.pb import rpc_pb2

GOSSIP_WINDOW = 3
"""Heartbeats; gossipsub: mcache_gossip = 3."""

HISTORY = 5
"""Heartbeats; gossipsub: mcache_len = 5."""

MAX_MESSAGES = 4096
"""As in Episub's cache."""

MAX_BYTES = 32 * 2**20
"""As in Episub's cache."""

MAX_SENDS = 3
"""Of an id to one peer; go-libp2p-pubsub: GossipRetransmission 3."""


class BoundedCache(MessageCache):
    """py-libp2p's message cache under Pubsub's message ids, bounded in messages and bytes.

    The stock class keys by author and sequence number whatever the application's message id
    function is, so that with another one receivers ask for what they have
    (libp2p 0.8.1, pubsub/mcache.py, `MessageCache.put`).
    """

    def __init__(
        self,
        message_id: Callable[[rpc_pb2.Message], bytes],
        max_messages: int = MAX_MESSAGES,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        super().__init__(GOSSIP_WINDOW, HISTORY)
        self._max_messages = max_messages
        self._max_bytes = max_bytes
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
        while len(self.msgs) > self._max_messages or self._bytes > self._max_bytes:
            oldest = next(slot for slot in reversed(self.history) if slot)
            self._forget(oldest.pop(0).mid)

    def foreign(self, mids: Iterable[bytes], peer: ID) -> list[bytes]:
        """Those of `mids` that are here, and whose author isn't `peer`."""
        author = peer.to_bytes()
        return [mid for mid in mids if mid in self.msgs and self.msgs[mid].from_id != author]

    def may_serve(self, mid: bytes, peer: ID) -> bool:
        """Whether `mid` is here, of another author than `peer`, and `peer` hasn't had it
        `MAX_SENDS` times; counts."""
        if not self.foreign((mid,), peer):
            return False
        times = self._served.setdefault(mid, {})
        times[peer] = times.get(peer, 0) + 1
        return times[peer] <= MAX_SENDS

    def shift(self) -> None:
        for entry in self.history[-1]:
            self._forget(entry.mid)
        super().shift()

    def _forget(self, mid: bytes) -> None:
        self._bytes -= self.msgs.pop(mid).ByteSize()
        self._served.pop(mid, None)
