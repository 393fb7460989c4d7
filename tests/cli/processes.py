"""`episub node` in processes of their own."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from subprocess import PIPE
from typing import Any

import trio

from tests.children import trio_child
from tests.forking import ForkedProcess, Lines, forked

PATIENCE = 120.0
"""Seconds for anything: importing py-libp2p takes two, on a busy machine more."""
_ROOT = Path(__file__).parents[2]


class NodeProcess:
    """A running `episub node --json`."""

    def __init__(self, process: trio.Process | ForkedProcess) -> None:
        self.process = process
        self._lines = Lines(process.stdout)
        self._passed_over: list[dict[str, Any]] = []

    async def event(self, name: str) -> dict[str, Any]:
        """The next event called `name`; others before it are kept for later calls.

        Events of different kinds come in no stated order: a message that is being validated is
        delivered after its sender left.
        """
        kept = next((event for event in self._passed_over if event["event"] == name), None)
        if kept is not None:
            self._passed_over.remove(kept)
            return kept
        with trio.fail_after(PATIENCE):
            while True:
                found: dict[str, Any] = json.loads(await self._lines.next())
                if found["event"] == name:
                    return found
                self._passed_over.append(found)

    async def type(self, text: bytes) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(text)

    async def end_input(self) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.aclose()

    async def exit_status(self) -> int:
        with trio.fail_after(PATIENCE):
            return await self.process.wait()


@asynccontextmanager
async def node_process(*arguments: str, fresh: bool = False) -> AsyncIterator[NodeProcess]:
    """Run `episub node --topic news --json` with more `arguments`; in an interpreter of its own
    if it is `fresh`."""
    words = ["node", "--topic", "news", "--json", *arguments]
    running: AbstractAsyncContextManager[trio.Process | ForkedProcess]
    if fresh:
        command = [sys.executable, "-m", "episub_router", *words]
        running = trio_child(command, stdin=PIPE, stdout=PIPE, stderr=PIPE, cwd=_ROOT)
    else:
        running = forked("episub", words)
    async with running as process:
        yield NodeProcess(process)
