"""What a run leaves behind: deliveries, transmissions, and the lives of the nodes.

Everything is kept as flat arrays and counters. Memory is bounded by messages * nodes (15
bytes a pair) plus one entry per session of a node.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from enum import Enum

from episub_router.sim.sizes import SIGNED_PAYLOAD
from episub_router.sim.trace import TraceWriter

NEVER_DELIVERED = -1.0

HOSTILE = "hostile"
"""The kind of message that counts all that hostile nodes send."""


class Ending(Enum):
    """How a session of a node ended."""

    RUNNING = "running"
    CRASHED = "crashed"
    LEFT = "left"


@dataclass(slots=True)
class Session:
    """One life of a node. Times in seconds; `joined` is when it had its first neighbour."""

    node: int
    started: float
    joined: float = float("inf")
    ended: float = float("inf")
    ending: Ending = Ending.RUNNING
    alone: list[tuple[float, float]] = field(default_factory=list)
    """Times in which it had no neighbour any more; the last may be still open."""
    given_up: int = 0
    """Messages that the router declared lost after its own retries."""
    hostile: bool = False
    """Whether the node is one of the scenario's adversaries, which no measure counts."""


@dataclass(slots=True)
class MessageRecord:
    """One published message. The arrays have one entry per node."""

    published: float
    source: int
    """The publishing node; -1 for a publisher outside of the network."""
    size: int
    delivered: array[float]
    """Seconds since the start of the run, or `NEVER_DELIVERED`."""
    hops: array[int]
    parent: array[int]
    payloads: float = 0.0
    """Payload transmissions, counted where they are sent; pieces count as their share."""


@dataclass(slots=True)
class Traffic:
    """Transmissions of one kind of message."""

    sends: int = 0
    size: int = 0
    """Modelled bytes."""


@dataclass(slots=True)
class Records:
    """Counters and records of a run; `capacity` is how many node ids it may come to use."""

    capacity: int
    authors: bool = True  # Whether messages name their authors
    messages: list[MessageRecord] = field(default_factory=list)
    traffic: dict[str, Traffic] = field(default_factory=dict)
    sessions: list[Session] = field(default_factory=list)
    drops: dict[str, int] = field(default_factory=dict)
    """Messages and requests that came to nothing, by reason."""
    lost_on_the_way: dict[tuple[int, int], None] = field(default_factory=dict)
    """(message, node) pairs of which a transmission towards the node was lost."""
    repeated_deliveries: int = 0
    trace: TraceWriter | None = None

    def publish(self, time: float, source: int, size: int) -> int:
        """Record a new message and return its id, counted from 0."""
        count = self.capacity
        message = len(self.messages)
        self.messages.append(
            MessageRecord(
                published=time,
                source=source,
                size=size,
                delivered=array("d", [NEVER_DELIVERED]) * count,
                hops=array("h", [0]) * count,
                parent=array("i", [-1]) * count,
            )
        )
        if self.trace is not None:
            self.trace.add(
                time, "publishMessage", source, message=message, hops=0, size=SIGNED_PAYLOAD + size
            )
        return message

    def deliver(self, time: float, message: int, node: int, hops: int, parent: int) -> None:
        """`node` handed `message` to its application; `parent` is -1 at the source."""
        record = self.messages[message]
        if record.delivered[node] != NEVER_DELIVERED:
            self.repeated_deliveries += 1
            return
        record.delivered[node] = time
        record.hops[node] = hops
        record.parent[node] = parent
        if self.trace is not None:
            own = node if record.source == node else None
            self.trace.add(
                time,
                "deliverMessage",
                node,
                remote=own if parent == -1 else parent,
                message=message,
                hops=hops,
                size=SIGNED_PAYLOAD + record.size,
            )

    def sent(self, kind: str, sends: int, size: int) -> None:
        """`sends` transmissions of a message of `size` modelled bytes were made."""
        traffic = self.traffic.get(kind)
        if traffic is None:
            traffic = self.traffic[kind] = Traffic()
        traffic.sends += sends
        traffic.size += sends * size

    def dropped(self, reason: str, count: int = 1) -> None:
        """Count something that came to nothing."""
        self.drops[reason] = self.drops.get(reason, 0) + count
