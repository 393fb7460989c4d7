"""Which event queue? The bucketed loop against the same loop over a binary heap.

    python tests/benchmarks/event_queue.py

Every action queues its own successor at a random delay, so that the queue keeps its size;
the handler does nothing else. Prints million events per second; best of three.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Protocol

from episub_router.sim.network.queue import EventLoop


class Loop(Protocol):
    now: float

    def at(self, time: float, action: Callable[[Any], None], argument: Any) -> None: ...

    def run(self, until: float) -> None: ...


class HeapLoop:
    """The textbook loop: a heap of (time, sequence, action, argument)."""

    __slots__ = ("_heap", "_sequence", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._sequence = 0

    def at(self, time: float, action: Callable[[Any], None], argument: Any) -> None:
        self._sequence += 1
        heappush(self._heap, (time, self._sequence, action, argument))

    def run(self, until: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, action, argument = heappop(heap)
            action(argument)


def events_per_second(loop: Loop, queued: int, events: int) -> float:
    """Throughput of `loop` with `queued` actions waiting at any time."""
    delays = [0.010 + 0.140 * ((i * 2_654_435_761) % 4096) / 4096 for i in range(8192)]
    left = events

    def act(index: int) -> None:
        nonlocal left
        left -= 1
        if left >= queued:
            loop.at(loop.now + delays[(left ^ index) & 8191], act, index)

    for index in range(queued):
        loop.at(delays[index & 8191], act, index)
    gc.collect()
    gc.disable()
    try:
        started = time.perf_counter()
        loop.run(1e9)
        return events / (time.perf_counter() - started)
    finally:
        gc.enable()


def main() -> None:
    print("queued      heap   buckets   ratio")
    for queued in (1_000, 10_000, 200_000):
        events = max(500_000, 4 * queued)
        heap = max(events_per_second(HeapLoop(), queued, events) for _ in range(3))
        buckets = max(events_per_second(EventLoop(), queued, events) for _ in range(3))
        print(f"{queued:>7,}  {heap / 1e6:6.2f}M  {buckets / 1e6:6.2f}M  {buckets / heap:5.2f}x")


if __name__ == "__main__":
    main()
