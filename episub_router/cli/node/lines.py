"""Lines from a file descriptor, without blocking the other tasks."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable

import trio

_CHUNK = 64 * 1024

HEAD = 64
"""Bytes of a line that is too long; enough to know it by."""


async def for_each_line(
    fd: int, limit: int, handle: Callable[[bytes, bool], Awaitable[None]]
) -> None:
    """Await `handle` for each line of `fd`, without its end, until the end of the file.

    Of a line of more than `limit` bytes `handle` is given the first `HEAD`, and False. At most
    `limit` bytes and one chunk are held.
    """
    pending = b""
    skipping = False
    # The thread may wait for ever; it reads the descriptor itself, since a lock of sys.stdin
    # held by it would break the exit of the interpreter.
    while chunk := await trio.to_thread.run_sync(
        os.read,
        fd,
        _CHUNK,
        abandon_on_cancel=True,  # type: ignore[call-arg]  # newer than trio-typing
    ):
        *lines, rest = (pending + chunk).split(b"\n")
        for line in lines:
            line = line.removesuffix(b"\r")
            if not skipping:
                is_whole = len(line) <= limit
                await handle(line if is_whole else line[:HEAD], is_whole)
            skipping = False
        if not skipping and len(rest) > limit:
            skipping = True
            await handle(rest[:HEAD], False)
        pending = b"" if skipping else rest
    if pending:
        await handle(pending, True)
