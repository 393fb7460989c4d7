"""Which message is validated next, so that no peer's messages keep those of others waiting."""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field

from libp2p.peer.id import ID
from libp2p.pubsub.pb.rpc_pb2 import Message


@dataclass(slots=True)
class ValidationJob:
    """One message on its way through validation."""

    forwarder: ID
    message: Message
    size: int
    """Bytes."""
    is_charged: bool = True
    """Whether its forwarder answers for it. Of a message in pieces only the author does."""
    arrived: float = 0.0
    """When it came, in trio's time."""
    frame_work: float = 0.0
    """Its share of the CPU time that its frame took, in seconds."""
    accepted: bool = False
    """Whether it proved new and valid."""
    verified: bool = False
    """Whether its author signed it."""
    forged: bool = False
    """Whether it was found out that its author didn't."""


@dataclass(slots=True)
class _Lane:
    """The messages of one peer."""

    waiting: deque[ValidationJob] = field(default_factory=deque)
    running: int = 0
    size: int = 0

    @property
    def count(self) -> int:
        return len(self.waiting) + self.running


class ValidationQueue:
    """Messages that wait, and that are being validated, in one lane for each peer.

    Lanes are served in turn. Of each bound (messages, bytes, validations at a time) a peer may
    use no more than it leaves free: one alone gets half, a second one half of the rest. So there
    is room for a newcomer, however many have taken what they can (Choudhury and Hahne's dynamic
    thresholds).
    """

    def __init__(self, max_messages: int, max_bytes: int, at_once: int) -> None:
        self._free_messages = max_messages
        self._free_bytes = max_bytes
        self._free_turns = at_once
        self._lanes: OrderedDict[ID, _Lane] = OrderedDict()
        """Of peers with messages in here, the one served longest ago first."""

    def __len__(self) -> int:
        return sum(lane.count for lane in self._lanes.values())

    def put(self, job: ValidationJob) -> bool:
        """Add a message; False if its peer's share is in use, or all room where the peer doesn't
        answer for it."""
        lane = self._lanes.get(job.forwarder) or _Lane()
        count, size = (lane.count, lane.size + job.size) if job.is_charged else (0, 0)
        if count >= self._free_messages or size > self._free_bytes - job.size:
            return False
        self._lanes[job.forwarder] = lane
        lane.waiting.append(job)
        lane.size += job.size
        self._free_messages -= 1
        self._free_bytes -= job.size
        return True

    def next(self) -> ValidationJob | None:
        """The message to validate now, if there is a turn for one; call `done` after it."""
        for peer, lane in self._lanes.items():
            if lane.waiting and lane.running < self._free_turns:
                lane.running += 1
                self._free_turns -= 1
                self._lanes.move_to_end(peer)
                return lane.waiting.popleft()
        return None

    def done(self, job: ValidationJob) -> None:
        """Its validation has ended, whatever came out."""
        lane = self._lanes[job.forwarder]
        lane.running -= 1
        lane.size -= job.size
        self._free_turns += 1
        self._free_messages += 1
        self._free_bytes += job.size
        if not lane.count:
            del self._lanes[job.forwarder]
