"""Time that passes as a process computes, whatever else the machine does meanwhile."""

from __future__ import annotations

import time

from trio.testing import MockClock

_NOTHING_TO_DO = 0.001
"""Seconds without a runnable task or a readable socket: loopback delivers at once."""


def computing_clock() -> MockClock:
    """A clock that advances by the CPU time of the process, and jumps to the next deadline where
    the process would wait.

    What hosts in one process measure by it is what they would on a machine of their own: the
    time that all of them compute, and the timers. `time.time` follows it from then on, since
    py-libp2p takes its back-offs and rates from there.
    """
    clock = MockClock(autojump_threshold=_NOTHING_TO_DO)
    clock._real_clock = time.process_time
    clock.rate = 1.0
    started, epoch = clock.current_time(), time.time()
    time.time = lambda: epoch + clock.current_time() - started
    return clock
