"""Leaving at Ctrl-C and SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, TypeVar

import trio

T = TypeVar("T")


def run_until_interrupted(main: Callable[..., Awaitable[T]], *args: Any) -> T:
    """`trio.run`, in which Ctrl-C and SIGTERM cancel `main` where it waits, and not amid
    py-libp2p's code. A second one interrupts at once. Raises KeyboardInterrupt, or SystemExit for
    SIGTERM."""

    async def guarded() -> T:
        number: int = signal.SIGINT
        with ExitStack() as handler:
            signals = handler.enter_context(
                trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM)
            )

            async def heed(scope: trio.CancelScope) -> None:
                nonlocal number
                number = await anext(aiter(signals))
                handler.close()
                scope.cancel()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(heed, nursery.cancel_scope)
                result = await main(*args)
                nursery.cancel_scope.cancel()
                return result
        raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)

    return trio.run(guarded)
