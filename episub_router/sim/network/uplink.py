"""What one host can send and receive at a time: its uplink, and its downlink if that is limited.

There are two classes of traffic. What is in bulk goes when nothing else waits, one parcel of each
stream in turn; a parcel that is being sent is sent to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import TypeAlias

from episub_router.sim.network.queue import EventLoop

Departed: TypeAlias = Callable[[float], None]
"""Called with the time at which the last bit has left."""

Stream: TypeAlias = tuple[Hashable, Hashable]
"""A peer, and the name of what it is sent."""


class Uplink:
    """One host's uplink, of `rate` bytes a second."""

    __slots__ = ("_is_pumping", "_loop", "_streams", "free_at", "rate", "sent")

    def __init__(self, loop: EventLoop, rate: float) -> None:
        self._loop = loop
        self.rate = rate
        self.free_at = 0.0
        """When what was sent will have left, but for what is in bulk."""
        self.sent = 0
        """Bytes so far, of all kinds."""
        self._streams: dict[Stream, dict[Hashable, tuple[int, Departed]]] = {}
        """What waits in bulk, by stream and part; the stream whose turn is next is first."""
        self._is_pumping = False

    def send(self, size: int) -> float:
        """Send `size` bytes behind what waits in their class; returns when they have left."""
        self.sent += size
        self.free_at = max(self._loop.now, self.free_at) + size / self.rate
        return self.free_at

    def send_in_bulk(self, stream: Stream, part: Hashable, size: int, departed: Departed) -> None:
        """Send `size` bytes when it is the turn of `stream`, unless this `part` of it waits
        already."""
        self._streams.setdefault(stream, {}).setdefault(part, (size, departed))
        if not self._is_pumping:
            self._is_pumping = True
            self._loop.at(max(self._loop.now, self.free_at), self._pump, None)

    def forget(self, peer: Hashable, names: Collection[Hashable] | None = None) -> None:
        """Nothing of what waits for `peer` is sent, of the streams in `names` or of all."""
        for stream in list(self._streams):
            if stream[0] == peer and (names is None or stream[1] in names):
                del self._streams[stream]

    def clear(self) -> None:
        """Nothing of what waits is sent."""
        self._streams.clear()

    def _pump(self, _: object) -> None:
        now = self._loop.now
        if not self._streams:
            self._is_pumping = False
            return
        if self.free_at <= now:
            stream = next(iter(self._streams))
            waiting = self._streams.pop(stream)
            size, departed = waiting.pop(next(iter(waiting)))
            if waiting:
                self._streams[stream] = waiting
            departed(self.send(size))
        self._loop.at(self.free_at, self._pump, None)
