"""Programs of ours in processes that are forked from one that has imported them.

`SERVER.fork` starts one of `PROGRAMS` in a small part of the time that a new interpreter takes
(`tests.fork_server`). What is about starting and ending an interpreter is tested with one.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import BinaryIO, Literal

import trio

from tests.children import end, open_child, watch

Program = Literal["episub", "interop peer", "script", "sds member", "store writer"]

PROGRAMS: dict[Program, str] = {
    "episub": "episub_router.cli.main:main",
    "interop peer": "interop.py.peer:main",
    "script": "tests.fork_server:script",
    "sds member": "tests.sds.member_process:main",
    "store writer": "tests.sds.store_writer:main",
}
_ROOT = Path(__file__).parents[1]
_SERVER = [
    *(sys.executable, "-m", "tests.fork_server"),
    *(program.partition(":")[0] for program in PROGRAMS.values()),
    *("episub_router.cli.node.run", "episub_router.cli.chat.room"),  # imported on demand
]
_MAX_ANSWER = 32
"""Bytes."""


class ForkedProcess:
    """What `trio.Process` has, of a process that isn't a child of this one."""

    def __init__(self, pid: int, stdin: int, stdout: int, stderr: int | None, status: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self.stdin = trio.lowlevel.FdStream(stdin)
        self.stdout = trio.lowlevel.FdStream(stdout)
        self.stderr = None if stderr is None else trio.lowlevel.FdStream(stderr)
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


class Lines:
    """The lines of a stream of a process, which has not ended."""

    def __init__(self, stream: trio.abc.ReceiveStream | None) -> None:
        self._stream = stream
        self._buffer = b""

    async def next(self) -> str:
        assert self._stream is not None
        while b"\n" not in self._buffer:
            chunk = await self._stream.receive_some()
            assert chunk, f"the output ended after {self._buffer!r}"
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()


class ForkServer:
    """One server for all tests of this process; it ends when this process does."""

    def __init__(self) -> None:
        self._requests: socket.socket | None = None
        self._starting = trio.Lock()
        self._asking = threading.Lock()

    async def fork(
        self,
        program: Program,
        arguments: Sequence[str],
        errors: BinaryIO | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ForkedProcess:
        """Start a program with these arguments; its standard error is a pipe unless it goes to
        `errors`."""
        async with self._starting:
            if self._requests is None:
                self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                with theirs:
                    await open_child(_SERVER, stdin=theirs, cwd=_ROOT)
        request = {
            "program": PROGRAMS[program],
            "arguments": list(arguments),
            "environment": dict(os.environ if environment is None else environment),
        }
        with ExitStack() as theirs_now:

            def pipe(end: int) -> tuple[int, int]:
                """Our end and theirs, which is the one with this number."""
                ends = os.pipe()
                theirs_now.callback(os.close, ends[end])
                return ends[1 - end], ends[end]

            to_stdin, stdin = pipe(0)
            from_stdout, stdout = pipe(1)
            from_stderr, stderr = (None, errors.fileno()) if errors else pipe(1)
            from_status, status = pipe(1)
            pid = await trio.to_thread.run_sync(
                self._ask, json.dumps(request).encode(), [stdin, stdout, stderr, status]
            )
        watch(pid)
        return ForkedProcess(pid, to_stdin, from_stdout, from_stderr, from_status)

    def _ask(self, request: bytes, descriptors: list[int]) -> int:
        assert self._requests is not None
        with self._asking:
            socket.send_fds(self._requests, [request], descriptors)
            answer = self._requests.recv(_MAX_ANSWER)
        if not answer:
            raise RuntimeError("the fork server has ended; it has said why on standard error")
        return int(answer)


SERVER = ForkServer()


@asynccontextmanager
async def forked(
    program: Program, arguments: Sequence[str], errors: BinaryIO | None = None
) -> AsyncIterator[ForkedProcess]:
    """Run a program as `SERVER.fork` does, while the block lasts."""
    process = await SERVER.fork(program, arguments, errors)
    try:
        yield process
    finally:
        await end(process)
