"""What is known of a run. Times are seconds since its begin, by the runner's monotonic clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from interop.testbed.faults import Fault


@dataclass(frozen=True, slots=True)
class Accepted:
    """A node said that it has published a message."""

    time: float
    host: int
    session: int
    message: str
    asked: float
    """When it was asked to."""
    after: int = 0
    """SDS: how many deliveries of this session its application had seen before it sent."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A node said that it hasn't published a message, and why."""

    time: float
    host: int
    session: int
    message: str
    error: str


@dataclass(frozen=True, slots=True)
class Parted:
    """A node said that a neighbour went."""

    time: float
    host: int
    session: int
    other: int
    reason: str
    """Empty if it didn't say why."""


@dataclass(frozen=True, slots=True)
class Delivered:
    """A node handed a message of another one to its application."""

    time: float
    host: int
    session: int
    message: str
    missing: tuple[str, ...] = ()
    """SDS: what it was said to depend on and was given up."""


@dataclass(frozen=True, slots=True)
class Neighbors:
    """The neighbours of a node from now on."""

    time: float
    host: int
    session: int
    hosts: frozenset[int]


@dataclass(frozen=True, slots=True)
class Lived:
    """A process started, is ready, was stopped or continued, or ended."""

    time: float
    host: int
    session: int
    state: str
    """`start`, `ready`, `kill`, `stop`, `continue`, `leave` (as it was asked to), `death` (not)."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What a process holds."""

    time: float
    host: int
    session: int
    memory: int
    """Bytes that are resident."""
    descriptors: int
    threads: int
    cpu: float
    """Seconds of CPU since it started."""


@dataclass(frozen=True, slots=True)
class Log:
    """SDS: a participant's log in the total order, asked for at the end."""

    host: int
    messages: tuple[str, ...]


Event = Accepted | Refused | Delivered | Neighbors | Parted | Lived


@dataclass(slots=True)
class History:
    """A run. `events` are in the order in which the runner saw them; those of one host are in
    the order in which they happened."""

    name: str
    kinds: Sequence[str]
    duration: float
    began: float
    """Seconds since 1970 by the runner's wall clock."""
    peers: Sequence[str] = ()
    """The hosts' peer ids."""
    events: list[Event] = field(default_factory=list)
    usage: list[Usage] = field(default_factory=list)
    logs: list[Log] = field(default_factory=list)
    asked: dict[str, tuple[float, int]] = field(default_factory=dict)
    """Each message, with when it was to be published and by which host."""
    faults: list[Fault] = field(default_factory=list)
    """As they were carried out."""

    @property
    def hosts(self) -> int:
        return len(self.kinds)

    @property
    def accepted(self) -> list[Accepted]:
        return [event for event in self.events if isinstance(event, Accepted)]

    @property
    def delivered(self) -> list[Delivered]:
        return [event for event in self.events if isinstance(event, Delivered)]
