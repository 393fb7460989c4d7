"""What happens in a topic, as `EpisubRouter.events` reports it."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias
from weakref import WeakSet

import trio
from libp2p.peer.id import ID
from multiaddr import Multiaddr

MAX_WAITING = 256
"""Events that wait for one reader; chosen: a view of ten neighbours, turned over many times."""


@dataclass(frozen=True, slots=True)
class NeighborUp:
    """`peer` became a neighbour, of which there are `neighbors` now."""

    topic: str
    peer: ID
    neighbors: int


@dataclass(frozen=True, slots=True)
class NeighborDown:
    """`peer` ceased to be a neighbour; `neighbors` are left."""

    topic: str
    peer: ID
    neighbors: int


@dataclass(frozen=True, slots=True)
class Joined:
    """The first neighbour is there: what is published now reaches others."""

    topic: str


@dataclass(frozen=True, slots=True)
class Alone:
    """The last neighbour is gone: what is published now reaches nobody, until `Joined`."""

    topic: str


@dataclass(frozen=True, slots=True)
class MessageLost:
    """A message was announced to this node, and none of the announcers delivered it."""

    topic: str


@dataclass(frozen=True, slots=True)
class Banned:
    """`peer` is banned for `seconds`: it broke promises, forwarded what was forged, or was given a
    bad standing."""

    topic: str
    peer: ID
    seconds: float


@dataclass(frozen=True, slots=True)
class BootstrapFailed:
    """A node of the bootstrap list could not be reached; it is tried again later."""

    topic: str
    address: Multiaddr
    """One of those that were given for it."""
    reason: str


@dataclass(frozen=True, slots=True)
class EventsMissed:
    """The reader was behind: `count` events before the next one were dropped."""

    topic: str
    count: int


TopicEvent: TypeAlias = (
    NeighborUp
    | NeighborDown
    | Joined
    | Alone
    | MessageLost
    | Banned
    | BootstrapFailed
    | EventsMissed
)


class NotJoined(TimeoutError):
    """There was no neighbour in time; `reasons` has what was tried, one line each."""

    def __init__(self, topic: str, seconds: float, reasons: Sequence[str]) -> None:
        super().__init__(f"no neighbour in {topic!r} within {seconds:g} s: {'; '.join(reasons)}")
        self.reasons = tuple(reasons)


class EventStream(AsyncIterator[TopicEvent]):
    """The events of one topic for one reader; at most `MAX_WAITING` wait, the oldest go first."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._waiting: deque[TopicEvent] = deque()
        self._missed = 0
        self._there = trio.Event()

    def put(self, event: TopicEvent) -> None:
        if len(self._waiting) >= MAX_WAITING:
            self._waiting.popleft()
            self._missed += 1
        self._waiting.append(event)
        self._there.set()

    def __aiter__(self) -> EventStream:
        return self

    async def __anext__(self) -> TopicEvent:
        while not self._waiting:
            self._there = trio.Event()
            await self._there.wait()
        if self._missed:
            missed, self._missed = self._missed, 0
            return EventsMissed(self._topic, missed)
        return self._waiting.popleft()


class TopicEvents:
    """Hands each event to the readers of its topic. Without readers nothing is kept."""

    def __init__(self) -> None:
        self._streams: dict[str, WeakSet[EventStream]] = {}
        """A stream that nobody holds is gone."""

    def emit(self, event: TopicEvent) -> None:
        for stream in self._streams.get(event.topic, ()):
            stream.put(event)

    def read(self, topic: str) -> EventStream:
        """The events from this call on."""
        for name in [name for name, streams in self._streams.items() if not streams]:
            del self._streams[name]
        stream = EventStream(topic)
        self._streams.setdefault(topic, WeakSet()).add(stream)
        return stream
