"""Frames on their way to Pubsub's outbound queues.

Pubsub's queue of a peer holds 32 RPCs, refuses what is beyond, priority or not, and can't be
awaited; and it doesn't exist before the peer is writable. So each peer has a bounded backlog
here, which is tried again while there is one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

import trio
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.rpc_queue import OutBoundQueueSize, RpcQueue

from episub_router.net.counters import Counters, Reason
from episub_router.net.params import RouterParams
from episub_router.net.view import PubsubView
from episub_router.protocol.messages import Disconnect, Gossip, Leave, Message

Encode: TypeAlias = Callable[[bytes, str, tuple[Message, ...]], rpc_pb2.RPC]
"""Peer, topic and messages to the RPC that carries them."""
OnDropped: TypeAlias = Callable[[bytes, str, Gossip], None]


@dataclass(slots=True)
class _Parcel:
    """One frame, encoded only when there is room for it in Pubsub's queue."""

    topic: str
    messages: tuple[Message, ...]

    @property
    def gossip(self) -> Gossip | None:
        first = self.messages[0]
        return first if isinstance(first, Gossip) else None

    @property
    def size(self) -> int:
        """Payload bytes; control frames are bounded by their number."""
        gossip = self.gossip
        return 0 if gossip is None else gossip.size


@dataclass(slots=True)
class _Backlog:
    """What one peer's queue had no room for: control goes first, payloads follow."""

    control: deque[_Parcel] = field(default_factory=deque)
    payloads: deque[_Parcel] = field(default_factory=deque)
    size: int = 0

    def __bool__(self) -> bool:
        return bool(self.control or self.payloads)


class Outbox:
    """Sends frames, keeps what can't go yet, and says what it had to drop."""

    def __init__(
        self,
        pubsub: Pubsub | PubsubView,
        params: RouterParams,
        counters: Counters,
        encode: Encode,
        dropped: OnDropped,
    ) -> None:
        """`dropped` is told of each payload that there was no room for."""
        self._pubsub = pubsub
        self._params = params
        self._counters = counters
        self._encode = encode
        self._dropped = dropped
        self._backlogs: dict[bytes, _Backlog] = {}
        self._stalled = trio.Event()

    def is_writable(self, peer: bytes) -> bool:
        return self._queue(peer) is not None

    def holds(self, peer: bytes) -> bool:
        """Whether frames wait for `peer`."""
        return peer in self._backlogs

    def send(self, peer: bytes, topic: str, messages: tuple[Message, ...]) -> bool:
        """Queue one frame: control messages, or a single Gossip.

        Frames of one kind keep their order. False if the peer isn't writable (yet): the frame
        is held until `flush` or `discard`.
        """
        parcel = _Parcel(topic, messages)
        backlog = self._backlogs.get(peer)
        queue = self._queue(peer)
        if queue is not None:
            lane = backlog and (backlog.control if parcel.gossip is None else backlog.payloads)
            if not lane and self._push(peer, queue, parcel):
                return True
        self._keep(peer, parcel)
        if queue is None:
            return False
        self._stalled.set()
        return True

    def flush(self, peer: bytes) -> None:
        """Move what waits for `peer` into its queue, as far as there is room."""
        backlog = self._backlogs.get(peer)
        queue = self._queue(peer)
        if backlog is None or queue is None:
            return
        for lane in (backlog.control, backlog.payloads):
            while lane and self._push(peer, queue, lane[0]):
                backlog.size -= lane.popleft().size
        if backlog:
            self._stalled.set()
        else:
            del self._backlogs[peer]

    def discard(self, peer: bytes) -> bool:
        """Forget what waits for `peer`; True if there was something."""
        backlog = self._backlogs.pop(peer, None)
        if backlog is None:
            return False
        self._counters.add(Reason.UNDELIVERABLE, len(backlog.control) + len(backlog.payloads))
        return True

    def leave(self, topic: str) -> None:
        """We left `topic`: of what waits, only the goodbyes are still true."""
        for peer, backlog in list(self._backlogs.items()):
            for lane in (backlog.control, backlog.payloads):
                kept = [p for p in lane if p.topic != topic or _is_goodbye(p)]
                lane.clear()
                lane.extend(kept)
            backlog.size = sum(parcel.size for parcel in backlog.payloads)
            if not backlog:
                del self._backlogs[peer]

    async def run(self) -> None:
        """Try backlogs again while there are any, until cancelled."""
        while True:
            await self._stalled.wait()
            self._stalled = trio.Event()
            await trio.sleep(self._params.backlog_poll)
            for peer in list(self._backlogs):
                self.flush(peer)

    def _queue(self, peer: bytes) -> RpcQueue | None:
        target = ID(peer)
        # A blacklisted peer loses its place in `peers` and keeps its queue.
        if target not in self._pubsub.peers:
            return None
        queue = self._pubsub.peer_queues.get(target)
        return None if queue is None or queue.closed else queue

    def _push(self, peer: bytes, queue: RpcQueue, parcel: _Parcel) -> bool:
        """False if the queue is full; a frame that can never go counts as gone."""
        if len(queue) >= OutBoundQueueSize:
            # Before encoding, which takes a sequence id: those of one peer must not run ahead.
            return False
        try:
            rpc = self._encode(peer, parcel.topic, parcel.messages)
        except Exception:
            # Ids that aren't bytes, a topic that is too long for a frame; whatever else it is, it
            # must not reach Pubsub or the nursery, since the host would stop.
            self._counters.add(Reason.UNENCODABLE)
            return True
        if rpc.ByteSize() > queue.max_message_size:
            # Announcing it instead would only make others ask for what can't be sent.
            self._counters.add(Reason.OVERSIZE)
            return True
        gossip = parcel.gossip
        if not queue.push(rpc, priority=gossip is None):
            return False
        self._counters.add(Reason.FRAMES_SENT)
        if gossip is not None:
            self._counters.add(Reason.PAYLOADS_SENT)
        return True

    def _keep(self, peer: bytes, parcel: _Parcel) -> None:
        backlog = self._backlogs.get(peer) or _Backlog()
        gossip = parcel.gossip
        lane = backlog.control if gossip is None else backlog.payloads
        if (
            len(lane) >= self._params.backlog_frames
            or backlog.size + parcel.size > self._params.backlog_bytes
        ):
            self._counters.add(Reason.BACKLOG_FULL)
            if gossip is not None:
                self._dropped(peer, parcel.topic, gossip)
        else:
            lane.append(parcel)
            backlog.size += parcel.size
            self._backlogs[peer] = backlog


def _is_goodbye(parcel: _Parcel) -> bool:
    return any(isinstance(message, Disconnect | Leave) for message in parcel.messages)
