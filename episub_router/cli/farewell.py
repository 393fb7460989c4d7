"""Leaving: at Ctrl-C, and without losing what was published last."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack, suppress
from typing import Any, TypeVar

import trio
from libp2p.abc import IHost
from libp2p.peer.id import ID

from episub_router import EpisubRouter
from episub_router.net.ping import measure_rtt

T = TypeVar("T")

FAREWELL = 2.0
"""Seconds that leaving may take."""


async def frames_arrive(host: IHost, router: EpisubRouter, neighbors: Iterable[ID]) -> None:
    """Wait until `neighbors` have everything that was sent; at most FAREWELL seconds."""
    with trio.move_on_after(FAREWELL):
        await router.wait_for_room(0)
        for peer in neighbors:
            # An echo means that what was written before has arrived, too.
            with suppress(Exception):
                await measure_rtt(host, peer)


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
