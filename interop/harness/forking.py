"""Peers of py-libp2p, forked from one process that has imported it (`interop.py.fork_server`)."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import trio

from interop.harness.kinds import ROOT
from tests.children import open_child, watch

_SERVER = [sys.executable, str(Path(__file__).parents[1] / "py" / "fork_server.py")]
_MAX_ANSWER = 32
"""Bytes."""


class ForkedProcess:
    """What `trio.Process` has, of a process that isn't a child of this one."""

    def __init__(self, pid: int, stdin: int, stdout: int, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin = trio.lowlevel.FdStream(stdin)
        self.stdout = trio.lowlevel.FdStream(stdout)
        self._status = trio.lowlevel.FdStream(status)
        self._waiting = trio.Lock()

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    async def wait(self) -> int:
        """The exit status; of a process that was killed, -9."""
        async with self._waiting:
            if self.returncode is None:
                code = await self._status.receive_some(1)
                self.returncode = code[0] if code else -signal.SIGKILL
                await self._status.aclose()
        return self.returncode


class ForkServer:
    """One server for all tests of this process; it ends when this process does."""

    def __init__(self) -> None:
        self._requests: socket.socket | None = None
        self._starting = trio.Lock()
        self._asking = threading.Lock()

    async def fork(
        self, arguments: Sequence[str], errors: BinaryIO, environment: Mapping[str, str]
    ) -> ForkedProcess:
        """Start a peer with these arguments."""
        async with self._starting:
            if self._requests is None:
                self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    await open_child(_SERVER, stdin=theirs, cwd=ROOT, env=environment)
        stdin, to_stdin = os.pipe()
        from_stdout, stdout = os.pipe()
        from_status, status = os.pipe()
        request = json.dumps(list(arguments)).encode()
        theirs_now = [stdin, stdout, errors.fileno(), status]
        try:
            pid = await trio.to_thread.run_sync(self._ask, request, theirs_now)
        finally:
            for descriptor in (stdin, stdout, status):
                os.close(descriptor)
        watch(pid)
        return ForkedProcess(pid, to_stdin, from_stdout, from_status)

    def _ask(self, request: bytes, descriptors: list[int]) -> int:
        assert self._requests is not None
        with self._asking:
            socket.send_fds(self._requests, [request], descriptors)
            answer = self._requests.recv(_MAX_ANSWER)
        if not answer:
            raise RuntimeError("the fork server has ended; it has said why on standard error")
        return int(answer)


SERVER = ForkServer()
