"""Virtual time: a queue of future actions, and the loop that performs them in order.

Actions are kept in buckets of one millisecond, each sorted when it is opened. Against a binary
heap this does the same work in 0.5 to 0.7 of the time (`tests/benchmarks/event_queue.py` of
575086cd measures both), as most of an action's cost is then an append instead of a sift.
"""

from __future__ import annotations

from bisect import insort_right
from collections.abc import Callable
from heapq import heappop, heappush
from operator import itemgetter
from typing import Any, TypeAlias

Action: TypeAlias = Callable[[Any], object]
"""What happens, called with the one argument that was queued beside it."""

BUCKETS_PER_SECOND = 1000.0

_time_of = itemgetter(0)


class EventLoop:
    """Performs actions in the order of (time, sequence in which they were queued).

    `now` is the time of the action under way, in seconds since the run began; `performed`
    counts the actions so far. A time that has passed already means now.
    """

    __slots__ = ("_buckets", "_indices", "_open", "_open_index", "_position", "now", "performed")

    def __init__(self) -> None:
        self.now = 0.0
        self.performed = 0
        self._buckets: dict[int, list[tuple[float, Action, Any]]] = {}
        self._indices: list[int] = []
        self._open: list[tuple[float, Action, Any]] = []
        self._open_index = -1
        self._position = 0

    def at(self, time: float, action: Action, argument: Any) -> None:
        """Queue `action(argument)` for `time`."""
        index = int(time * BUCKETS_PER_SECOND)
        bucket = self._buckets.get(index)
        if bucket is not None:
            bucket.append((time, action, argument))
        elif index > self._open_index:
            self._buckets[index] = [(time, action, argument)]
            heappush(self._indices, index)
        else:
            entry = (max(time, self.now), action, argument)
            insort_right(self._open, entry, lo=self._position, key=_time_of)

    def run(self, until: float) -> None:
        """Perform everything up to and including the time `until`, and set `now` to it."""
        buckets, indices = self._buckets, self._indices
        while True:
            opened = self._open
            position = self._position
            # The list grows behind `position` while it is walked, when an action queues
            # another one for the same millisecond.
            while position < len(opened):
                time, action, argument = opened[position]
                if time > until:
                    break
                position += 1
                self._position = position
                self.now = time
                action(argument)
            else:
                if indices and indices[0] <= until * BUCKETS_PER_SECOND:
                    self.performed += position
                    self._open_index = heappop(indices)
                    self._open = buckets.pop(self._open_index)
                    # Sorting is stable, and a bucket is filled in sequence: ties keep it.
                    self._open.sort(key=_time_of)
                    self._position = 0
                    continue
            break
        self.performed += self._position
        del self._open[: self._position]
        self._position = 0
        self._open_index = max(self._open_index, int(until * BUCKETS_PER_SECOND))
        self.now = max(self.now, until)
