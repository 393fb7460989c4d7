"""The tasks of a node, in one nursery."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from math import inf
from typing import ParamSpec

import trio

from episub_router.net.counters import Counters

P = ParamSpec("P")


class Tasks:
    """Runs tasks until it is cancelled. Those that are started before begin when it runs. What one
    raises is counted, and ends none but itself."""

    def __init__(self, counters: Counters) -> None:
        self._counters = counters
        self._put, self._take = trio.open_memory_channel[Callable[[], Awaitable[object]]](inf)
        """Bound: what their starters have under way."""

    def start(
        self, task: Callable[P, Awaitable[object]], *args: P.args, **kwargs: P.kwargs
    ) -> None:
        self._put.send_nowait(partial(task, *args, **kwargs))

    async def run(self) -> None:
        async with trio.open_nursery() as nursery:
            async for task in self._take:
                nursery.start_soon(self._run, task)

    async def _run(self, task: Callable[[], Awaitable[object]]) -> None:
        with self._counters.guarded("a task"):
            await task()
