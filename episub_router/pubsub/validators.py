"""The tasks that validate messages, and the peers that they are charged to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import trio
from libp2p.peer.id import ID
from libp2p.pubsub.pb.rpc_pb2 import Message

from episub_router.pubsub.metering import Meter
from episub_router.pubsub.params import PubsubParams
from episub_router.pubsub.traffic import TrafficCount
from episub_router.pubsub.validation_queue import ValidationJob, ValidationQueue
from episub_router.util.message_size import message_size
from episub_router.util.token_buckets import TokenBuckets

MOST_FRAME_WORK = 0.002
"""Seconds of CPU time of a frame that a new valid message in it pays for; chosen: ten times what
a frame with one message takes."""


MAX_PEERS = 1024
"""Peers whose budgets are remembered, connected or not: a peer gets nothing by coming back. Chosen:
many times the connections of one host."""

MOST_ASSEMBLED = 4
"""Messages in pieces that wait for room; chosen: 64 MiB at most, twice what is in validation."""

_MILLISECONDS = 1000


class Costs:
    """What each peer may still cost, in CPU time."""

    def __init__(self, params: PubsubParams) -> None:
        self._work: TokenBuckets[ID] = TokenBuckets(params.work, MAX_PEERS)
        """For input that a correct peer may send, such as duplicates and control messages."""
        self._faults: TokenBuckets[ID] = TokenBuckets(params.faults, MAX_PEERS)
        """For input that it doesn't send."""

    def charge(self, peer: ID, seconds: float, *, is_faulty: bool = False) -> None:
        """Take `seconds` from what `peer` has left, or give them back if they are negative."""
        budget = self._faults if is_faulty else self._work
        budget.spend(peer, trio.current_time(), _MILLISECONDS * seconds)

    def is_bankrupt(self, peer: ID) -> bool:
        """Whether its faults have cost too much."""
        return self._faults.left(peer, trio.current_time()) < 0

    def wait(self, peer: ID) -> float:
        """Seconds until its work has been paid for."""
        return self._work.wait(peer, trio.current_time())


@dataclass(eq=False)
class Validators:
    """Validates messages of peers. What a peer's messages cost is charged to it, except for
    messages that prove new and valid: those cost nothing, and neither does their frame."""

    queue: ValidationQueue
    costs: Costs
    push: Callable[[ID, Message], Coroutine[Any, Any, None]]
    """Validates a message and passes it on. It must not raise."""

    def __post_init__(self) -> None:
        self.traffic = TrafficCount()
        self._assembled: deque[tuple[ID, Message]] = deque()
        self._running: dict[int, ValidationJob] = {}
        """By the identity of the message object."""
        self._nursery: trio.Nursery | None = None

    async def run(self) -> None:
        async with trio.open_nursery() as self._nursery:
            self.start()
            await trio.sleep_forever()

    def put_assembled(self, forwarder: ID, message: Message) -> bool:
        """Add a message that came in pieces, which nobody is charged for. Two of the largest don't
        fit one peer's share, and there is no other copy: it waits for room. False if
        `MOST_ASSEMBLED` wait."""
        if len(self._assembled) >= MOST_ASSEMBLED:
            return False
        self._assembled.append((forwarder, message))
        self.start()
        return True

    def put(
        self, forwarder: ID, message: Message, *, is_charged: bool = True
    ) -> ValidationJob | None:
        """Add a message; None if its forwarder's share of the queue is in use."""
        now = trio.current_time()
        job = ValidationJob(forwarder, message, message_size(message), is_charged, now)
        return job if self.queue.put(job) else None

    def accepted(self, message: Message) -> None:
        """It is valid, and the first copy that is."""
        job = self._running.get(id(message))
        if job is not None:
            job.accepted = True
            self.traffic.note_delay(trio.current_time() - job.arrived)

    def verified(self, message: Message) -> None:
        """Its author signed it."""
        job = self._running.get(id(message))
        if job is not None:
            job.verified = True

    def refused(self, message: Message) -> bool:
        """It was not accepted, and no other copy was: forged, if it wasn't verified before. Returns
        whether it is."""
        job = self._running.get(id(message))
        if job is None:
            return False
        job.forged = not job.verified
        return job.forged

    def start(self) -> None:
        """Begin as many validations as there are turns for."""
        while self._assembled and self.put(*self._assembled[0], is_charged=False) is not None:
            self._assembled.popleft()
        # Not Pubsub's tasks: making one of those takes time in proportion to how many there are.
        while self._nursery is not None and (job := self.queue.next()) is not None:
            self._nursery.start_soon(self._validate, job)

    async def _validate(self, job: ValidationJob) -> None:
        meter = Meter()
        self._running[id(job.message)] = job
        try:
            await meter.run(self.push(job.forwarder, job.message))
        finally:
            del self._running[id(job.message)]
            self.queue.done(job)
            self._charge(job, meter.spent)
        self.start()

    def _charge(self, job: ValidationJob, spent: float) -> None:
        if not job.is_charged:
            return
        peer = job.forwarder
        if job.accepted or job.forged:
            self.costs.charge(peer, -job.frame_work)
        if job.forged:
            self.costs.charge(peer, spent + job.frame_work, is_faulty=True)
        elif not job.accepted:
            self.costs.charge(peer, spent)
