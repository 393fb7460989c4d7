"""Time-outs that an event loop which is behind doesn't use up.

A dial with its streams takes some hundred turns of the loop. Where turns are slow it would time
out half-way, and its repetition would make the loop slower still.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

_FAIR_TURN = 0.01
"""Seconds that a turn of the loop may take; of longer ones only this much counts."""

_LOOK = 0.25
"""Seconds between two looks at how long a turn takes."""

_TURNS = 4
"""Turns in one look: tasks run in another order in each."""

_MOST = 6.0
"""Times a time-out is stretched at most."""


class Pace:
    """What a time-out saw of the event loop."""

    def __init__(self) -> None:
        self._seen = 0.0
        self._lost = 0.0

    @property
    def is_slow(self) -> bool:
        """Whether half of the time or more didn't count."""
        return 0 < self._seen <= 2 * self._lost

    def note(self, seconds: float, turn: float) -> float:
        """In the last `seconds` a turn took `turn` seconds; returns how many don't count."""
        lost = seconds * max(0.0, 1 - _FAIR_TURN / turn) if turn else 0.0
        self._seen += seconds
        self._lost += lost
        return lost


@asynccontextmanager
async def load_aware(seconds: float) -> AsyncIterator[Pace]:
    """Cancel the block after `seconds`, longer where the turns of the event loop are slow; a
    single stall that is longer than what is left still ends it."""
    pace = Pace()
    failed: Exception | None = None
    most = trio.current_time() + _MOST * seconds
    with trio.move_on_after(seconds) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stretch, scope, pace, most)
            # Out of the nursery it would come in a group, with the cancellation of the other task.
            try:
                yield pace
            except Exception as error:
                failed = error
            nursery.cancel_scope.cancel()
    if failed is not None:
        raise failed


async def _stretch(scope: trio.CancelScope, pace: Pace, most: float) -> None:
    looked = trio.current_time()
    while True:
        await trio.sleep_until(looked + _LOOK)
        start = trio.current_time()
        for _ in range(_TURNS):
            await trio.lowlevel.checkpoint()
        now = trio.current_time()
        turn = (now - start) / _TURNS
        scope.deadline = min(scope.deadline + pace.note(now - looked, turn), most)
        looked = now
