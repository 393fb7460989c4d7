"""How much CPU time a coroutine takes, while others run in between."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from time import thread_time
from types import coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class Meter:
    """Seconds of CPU time, so far."""

    __slots__ = ("spent",)

    def __init__(self) -> None:
        self.spent = 0.0

    @coroutine
    def run(self, work: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
        """Await `work`, and add the time of each of its steps. The thread's own time: on a busy
        machine, what other processes take doesn't count."""
        step: Any = work.send
        passed: Any = None
        while True:
            started = thread_time()
            try:
                wanted = step(passed)
            except StopIteration as end:
                result: T = end.value
                return result
            finally:
                self.spent += thread_time() - started
            try:
                passed = yield wanted
                step = work.send
            except BaseException as error:
                step, passed = work.throw, error
