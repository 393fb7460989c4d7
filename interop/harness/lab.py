"""A set of peers that live as long as a test."""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from interop.harness.kinds import KINDS, ROOT
from interop.harness.peer import Peer
from tests.children import end, kill, open_child
from tests.forking import SERVER, ForkedProcess


class Lab:
    """Starts peers and keeps what they print in one directory."""

    def __init__(self, nursery: trio.Nursery, logs: Path) -> None:
        self.peers: list[Peer] = []
        self._nursery = nursery
        self._logs = logs
        self._numbers = itertools.count()

    async def start(self, kind: str, *arguments: str, topics: Iterable[str] = ()) -> Peer:
        """Start a peer and wait until it listens."""
        name = f"{kind}{next(self._numbers)}"
        flags = [*KINDS[kind].flags, *arguments, *(f"--topic={topic}" for topic in topics)]
        environment = KINDS[kind].environment()
        process: trio.Process | ForkedProcess
        with (self._logs / f"{name}.err").open("wb") as errors:
            if KINDS[kind].forked:
                process = await SERVER.fork("interop peer", flags, errors, environment)
            else:
                process = await open_child(
                    [*KINDS[kind].command, *flags],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=ROOT,
                    env=environment,
                )
        peer = Peer(name, process, self._logs / f"{name}.out")
        self.peers.append(peer)
        self._nursery.start_soon(peer.read)
        listening = await peer.event("listening")
        peer.id, peer.addresses = listening["peer"], listening["addrs"]
        peer.versions = listening["versions"]
        return peer

    async def start_all(self, kinds: Iterable[str], topic: str) -> list[Peer]:
        """Start peers side by side, in the order of `kinds`."""
        kinds = list(kinds)
        found: dict[int, Peer] = {}

        async def start(index: int, kind: str) -> None:
            found[index] = await self.start(kind, topics=[topic])

        async with trio.open_nursery() as nursery:
            for index, kind in enumerate(kinds):
                nursery.start_soon(start, index, kind)
        return [found[index] for index in range(len(kinds))]


@asynccontextmanager
async def running_lab(logs: Path) -> AsyncIterator[Lab]:
    """A lab; at its end all of its processes are killed and reaped."""
    async with trio.open_nursery() as nursery:
        lab = Lab(nursery, logs)
        try:
            yield lab
        finally:
            for peer in lab.peers:
                kill(peer.process)
            for peer in lab.peers:
                await end(peer.process)
