"""What one host can send and receive at a time: its uplink, and its downlink if that is limited.

There are two classes of traffic. What is in bulk goes when nothing else waits: one parcel for each
peer in turn, and of what waits for a peer in the order of the router's lanes. A parcel that is
being sent is sent to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import TypeAlias

from episub_router.sim.network.queue import EventLoop
from episub_router.util.turns import PieceTurns

Departed: TypeAlias = Callable[[float], None]
"""Called with the time at which the last bit has left."""

Parcel: TypeAlias = tuple[int, Departed]
"""How many bytes it has, and what is called when it goes."""


class Uplink:
    """One host's uplink, of `rate` bytes a second."""

    __slots__ = ("_is_pumping", "_lanes", "_loop", "free_at", "rate", "sent")

    def __init__(self, loop: EventLoop, rate: float) -> None:
        self._loop = loop
        self.rate = rate
        self.free_at = 0.0
        """When what was sent will have left, but for what is in bulk."""
        self.sent = 0
        """Bytes so far, of all kinds."""
        self._lanes: dict[Hashable, PieceTurns[Hashable, Parcel]] = {}
        """What waits in bulk, by peer; the one whose turn is next is first."""
        self._is_pumping = False

    def send(self, size: int) -> float:
        """Send `size` bytes behind what waits in their class; returns when they have left."""
        self.sent += size
        self.free_at = max(self._loop.now, self.free_at) + size / self.rate
        return self.free_at

    def send_in_bulk(
        self, peer: Hashable, part: tuple[Hashable, Hashable], more: int, size: int,
        departed: Departed,
    ) -> None:  # fmt: skip
        """Send `peer` this `part` of a message, `size` bytes, when it is its turn, unless it waits
        already; `more` parts of the message will follow that don't wait yet."""
        lane = self._lanes.get(peer)
        if lane is None:
            lane = self._lanes[peer] = PieceTurns()
        lane.put(part[0], part[1], (size, departed), more)
        if not self._is_pumping:
            self._is_pumping = True
            self._loop.at(max(self._loop.now, self.free_at), self._pump, None)

    def forget(self, peer: Hashable, messages: Collection[Hashable] | None = None) -> None:
        """Nothing of what waits for `peer` is sent, of these `messages` or of all."""
        lane = self._lanes.get(peer)
        if lane is None:
            return
        if messages is None:
            lane.clear()
        else:
            lane.forget(messages)
        if not lane:
            del self._lanes[peer]

    def clear(self) -> None:
        """Nothing of what waits is sent."""
        self._lanes.clear()

    def _pump(self, _: object) -> None:
        now = self._loop.now
        if not self._lanes:
            self._is_pumping = False
            return
        if self.free_at <= now:
            peer = next(iter(self._lanes))
            lane = self._lanes.pop(peer)
            size, departed = lane.take()
            if lane:
                self._lanes[peer] = lane
            departed(self.send(size))
        self._loop.at(self.free_at, self._pump, None)
