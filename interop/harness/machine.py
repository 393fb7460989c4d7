"""The machine that the processes of a test run share: a few tests want it for themselves."""

from __future__ import annotations

import fcntl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import trio


@asynccontextmanager
async def machine(directory: Path, *, alone: bool) -> AsyncIterator[None]:
    """Wait for the machine, and have it: `alone`, or with others that don't ask for that.

    A test that waits holds the door, so that one that wants to be alone is not passed for ever. All
    processes of the run name the same directory.
    """
    async with AsyncExitStack() as inside:
        async with _locked(directory / "door.lock", fcntl.LOCK_EX):
            how = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
            await inside.enter_async_context(_locked(directory / "machine.lock", how))
        yield


@asynccontextmanager
async def _locked(path: Path, how: int) -> AsyncIterator[None]:
    with path.open("w") as file:
        await trio.to_thread.run_sync(fcntl.flock, file, how)
        yield
