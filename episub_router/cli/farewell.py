"""Leaving at Ctrl-C."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any, TypeVar

import trio

T = TypeVar("T")


def run_until_interrupted(main: Callable[..., Awaitable[T]], *args: Any) -> T:
    """`trio.run`, in which Ctrl-C cancels `main` where it waits, and not amid py-libp2p's code. A
    second one interrupts at once. Raises KeyboardInterrupt."""

    async def guarded() -> T:
        with ExitStack() as handler:
            signals = handler.enter_context(trio.open_signal_receiver(signal.SIGINT))

            async def heed(scope: trio.CancelScope) -> None:
                await anext(aiter(signals))
                handler.close()
                scope.cancel()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(heed, nursery.cancel_scope)
                result = await main(*args)
                nursery.cancel_scope.cancel()
                return result
        raise KeyboardInterrupt

    return trio.run(guarded)
