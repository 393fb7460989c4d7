"""What happens in a topic, as `EpisubRouter.events` reports it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias
from weakref import WeakSet

import trio
from libp2p.peer.id import ID
from multiaddr import Multiaddr

from episub_router.protocol.effects import DownReason

logger = logging.getLogger(__name__)

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
    reason: DownReason


@dataclass(frozen=True, slots=True)
class Joined:
    """The first Episub neighbour is there: what is published now reaches others."""

    topic: str
    peer: ID
    again: bool
    """Whether the node was `Alone` before: the topic has healed."""


@dataclass(frozen=True, slots=True)
class Alone:
    """The last Episub neighbour is gone: what is published now reaches at most gossipsub's, until
    `Joined`."""

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
class ReaderBehind:
    """A subscription of this node had no room: `dropped` messages of it so far. Reported for the
    first one, and for every `warn_every`th after it."""

    topic: str
    dropped: int


@dataclass(frozen=True, slots=True)
class LargeProgress:
    """Of a large message of `source`, `received` of `size` bytes are here, its signature included.
    Reported when it is announced, and some sixteen times while it comes; all of them are there
    before it is validated."""

    topic: str
    id: bytes
    source: ID
    received: int
    size: int


@dataclass(frozen=True, slots=True)
class LargeSent:
    """A large message of this node was sent whole to `neighbors`, who pass it on. Reported when it
    is published, and for each of them."""

    topic: str
    id: bytes
    size: int
    neighbors: int


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
    | ReaderBehind
    | LargeProgress
    | LargeSent
    | EventsMissed
)


WHY = {
    DownReason.FAILED: "the connection was lost, or nothing came over it",
    DownReason.ENDED: "it ended the link",
    DownReason.LEFT: "one of the two left the topic",
    DownReason.EVICTED: "another one took its place",
    DownReason.BANNED: "it is banned",
}
"""What the reasons mean, for people."""


def line_on(event: TopicEvent) -> str:
    """What happened, for people."""
    match event:
        case NeighborUp(peer=peer, neighbors=count):
            return f"neighbour {str(peer)[-8:]} came; there are {count}"
        case NeighborDown(peer=peer, neighbors=count, reason=reason):
            return f"neighbour {str(peer)[-8:]} went: {WHY[reason]}; there are {count}"
        case Joined(peer=peer, again=again):
            return (
                f"joined{' again' * again} with {str(peer)[-8:]}: what is published now reaches "
                "others"
            )
        case Alone():
            return "alone: what is published now reaches no neighbour, or gossipsub's only"
        case MessageLost():
            return "a message was announced, and none of the announcers delivered it"
        case Banned(peer=peer, seconds=seconds):
            return f"neighbour {str(peer)[-8:]} is banned for {seconds:g} s"
        case BootstrapFailed(address=address, reason=reason):
            return f"can't reach {address}: {reason}"
        case ReaderBehind(dropped=dropped):
            return f"this node's reader is behind: {dropped} messages dropped so far"
        case LargeProgress(source=source, received=received, size=size):
            return f"{received:,} of {size:,} bytes of a message of {str(source)[-8:]} are here"
        case LargeSent(size=size, neighbors=count):
            return f"{size:,} bytes were sent to {count} neighbours"
        case _:
            return f"{event.count} events went by unseen"


class NotJoined(TimeoutError):
    """There was no neighbour in time; `reasons` has what was tried, one line each."""

    def __init__(self, topic: str, seconds: float, reasons: Sequence[str]) -> None:
        super().__init__(f"no neighbour in {topic!r} within {seconds:g} s: {'; '.join(reasons)}")
        self.reasons = tuple(reasons)


class EventStream(AsyncIterator[TopicEvent]):
    """The events of one topic for one reader; at most `MAX_WAITING` wait, the oldest go first."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._put, self._take = trio.open_memory_channel[TopicEvent](MAX_WAITING)
        self._missed = 0

    def put(self, event: TopicEvent) -> None:
        try:
            self._put.send_nowait(event)
        except trio.WouldBlock:
            self._take.receive_nowait()
            self._put.send_nowait(event)
            self._missed += 1

    def __aiter__(self) -> EventStream:
        return self

    def waiting(self) -> Iterator[TopicEvent]:
        """The events that are there now, for a reader that doesn't wait."""
        with suppress(trio.WouldBlock):
            while True:
                yield self._take.receive_nowait()

    async def __anext__(self) -> TopicEvent:
        if self._missed:
            missed, self._missed = self._missed, 0
            return EventsMissed(self._topic, missed)
        return await self._take.receive()


class TopicEvents:
    """Hands each event to the readers of its topic. Without readers nothing is kept."""

    def __init__(self) -> None:
        self._streams: dict[str, WeakSet[EventStream]] = {}
        """A stream that nobody holds is gone."""

    def emit(self, event: TopicEvent) -> None:
        # What a message's loss means is in the log once a minute (counters.py).
        often = isinstance(event, MessageLost | LargeProgress | LargeSent)
        level = logging.DEBUG if often else logging.INFO
        if logger.isEnabledFor(level):
            logger.log(level, "%s: %s", event.topic, line_on(event))
        for stream in self._streams.get(event.topic, ()):
            stream.put(event)

    def read(self, topic: str) -> EventStream:
        """The events from this call on."""
        for name in [name for name, streams in self._streams.items() if not streams]:
            del self._streams[name]
        stream = EventStream(topic)
        self._streams.setdefault(topic, WeakSet()).add(stream)
        return stream
