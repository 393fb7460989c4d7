"""Room for bursts: Pubsub's queue of a peer holds 32 RPCs, and GossipSub drops what is beyond."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping

import trio
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.rpc_queue import RpcQueue

from episub_router.net.counters import Counters, Reason
from episub_router.net.params import RouterParams


class PatientQueue:
    """One peer's `RpcQueue` with a bounded backlog in front. Control RPCs overtake payloads."""

    def __init__(
        self, queue: RpcQueue, params: RouterParams, counters: Counters, stalled: Callable[[], None]
    ) -> None:
        """`stalled` is told when the backlog begins to fill."""
        self.queue = queue
        self.max_message_size = queue.max_message_size
        self.split_rpc = queue.split_rpc
        self._params = params
        self._counters = counters
        self._stalled = stalled
        self._control: deque[rpc_pb2.RPC] = deque()
        self._payloads: deque[rpc_pb2.RPC] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        """Whether something waits."""
        return bool(self._control or self._payloads)

    def push(self, rpc: rpc_pb2.RPC, priority: bool = False) -> bool:
        """Queue `rpc`; False if there is no room in the backlog either."""
        lane = self._control if priority else self._payloads
        if not lane and self.queue.push(rpc, priority=priority):
            return True
        size = rpc.ByteSize()
        if (
            self.queue.closed
            or len(lane) >= self._params.backlog_frames
            or self._bytes + size > self._params.backlog_bytes
        ):
            self._counters.add(Reason.BACKLOG_FULL)
            return False
        lane.append(rpc)
        self._bytes += size
        self._stalled()
        return True

    def flush(self) -> None:
        """Move what waits into the queue, as far as there is room."""
        for lane, priority in ((self._control, True), (self._payloads, False)):
            while lane and self.queue.push(lane[0], priority=priority):
                self._bytes -= lane.popleft().ByteSize()


class PatientQueues(Mapping[ID, PatientQueue]):
    """Pubsub's queues by peer, each with its backlog."""

    def __init__(
        self, queues: Mapping[ID, RpcQueue], params: RouterParams, counters: Counters
    ) -> None:
        self._queues = queues
        self._params = params
        self._counters = counters
        self._patient: dict[ID, PatientQueue] = {}
        self._stalled = trio.Event()

    def __getitem__(self, peer: ID) -> PatientQueue:
        queue = self._queues[peer]
        patient = self._patient.get(peer)
        if patient is None or patient.queue is not queue:
            patient = self._patient[peer] = PatientQueue(
                queue, self._params, self._counters, self._stalled_one
            )
        return patient

    def __iter__(self) -> Iterator[ID]:
        return iter(self._queues)

    def __len__(self) -> int:
        return len(self._queues)

    def forget(self, peer: ID) -> None:
        """`peer` is gone, and what waits for it."""
        self._patient.pop(peer, None)

    def _stalled_one(self) -> None:
        self._stalled.set()

    async def run(self) -> None:
        """Try backlogs again while there are any, until cancelled."""
        while True:
            await self._stalled.wait()
            self._stalled = trio.Event()
            await trio.sleep(self._params.backlog_poll)
            for patient in list(self._patient.values()):
                patient.flush()
                if patient:
                    self._stalled.set()
