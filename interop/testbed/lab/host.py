"""One host: its process, what it is asked and what it reports, from one session to the next."""

from __future__ import annotations

import math
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

import trio

from interop.testbed.lab import linux
from interop.testbed.lab.software import Messages, Place, Said, Software
from interop.testbed.lab.usage import Reading, read_usage

_LONGEST_LINE = 4 << 20
"""Bytes; more than any message makes."""
_WAITING = 10_000
"""Lines that wait for a process which doesn't read: hours of it at the usual rates."""
_FAREWELL = 5.0
"""Seconds that a process has to end when it is asked to."""

Hear = Callable[[int, Said], None]
"""Called with the session and what the process said."""


class Host:
    """A host of a run. Processes are started from the runner's main thread, since they die with
    the thread that started them; each has a process group of its own."""

    def __init__(
        self,
        place: Place,
        program: Software,
        messages: Messages,
        enter: Callable[[], None] | None,
        hear: Hear,
        extra: Mapping[str, str],
    ) -> None:
        self.number = place.host
        self.session = -1
        self.paused = False
        self._place = place
        self._program = program
        self._messages = messages
        self._enter = enter
        self._hear = hear
        self._extra = extra
        self._process: subprocess.Popen[bytes] | None = None
        self._lines, self._queue = trio.open_memory_channel[bytes](0)
        self.ready = trio.Event()
        """Set while the process listens."""

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Of the process that runs; raises RuntimeError if none does."""
        if self._process is None:
            raise RuntimeError(f"host {self.number} has no process")
        return self._process.pid

    def tell(self, line: bytes) -> None:
        """Have the process read `line`, when it does; lines to one that is gone are lost."""
        try:
            self._lines.send_nowait(line)
        except (trio.WouldBlock, trio.BrokenResourceError):
            return

    def publish(self, data: bytes) -> None:
        self.tell(self._program.publish(data))

    def dial(self, address: str) -> None:
        line = self._program.dial(address)
        if line is not None:
            self.tell(line)

    def ask_for_log(self) -> bool:
        """Whether the process has a log, which it will tell of."""
        line = self._program.tell_log()
        if line is not None:
            self.tell(line)
        return line is not None

    async def live(self) -> int:
        """Start a session, and attend to it until the process ends; its exit status."""
        self.session += 1
        self.paused = False
        process = self._start()
        self._process = process
        self._lines, self._queue = trio.open_memory_channel[bytes](_WAITING)
        assert process.stdin is not None
        assert process.stdout is not None
        async with (
            trio.lowlevel.FdStream(os.dup(process.stdin.fileno())) as stdin,
            trio.lowlevel.FdStream(os.dup(process.stdout.fileno())) as stdout,
            trio.open_nursery() as nursery,
        ):
            process.stdin.close()
            process.stdout.close()
            nursery.start_soon(self._write, stdin)
            await self._read(stdout, self.session)
            nursery.cancel_scope.cancel()
        self.ready = trio.Event()
        while process.poll() is None:  # noqa: ASYNC110  (its output is closed: it ends)
            await trio.sleep(0.01)
        return process.returncode

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to the process and whatever it started."""
        if self.alive:
            os.killpg(self.pid, number)

    async def leave(self) -> None:
        """Have the process end the way its operator would; kill it if it doesn't."""
        if not self.alive:
            return
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        with trio.move_on_after(_FAREWELL):
            while self.alive:  # noqa: ASYNC110  (Popen has nothing to wait for)
                await trio.sleep(0.02)
        self.signal(signal.SIGKILL)

    def limit(self, what: int, most: float) -> None:
        """Hold the process to a resource limit of getrlimit(2), infinity for none."""
        if self.alive:
            soft = resource.RLIM_INFINITY if math.isinf(most) else int(most)
            hard = resource.prlimit(self.pid, what)[1]
            if hard != resource.RLIM_INFINITY:
                soft = hard if soft == resource.RLIM_INFINITY else min(soft, hard)
            resource.prlimit(self.pid, what, (soft, hard))

    def usage(self) -> Reading | None:
        """What the process holds; None if there is none."""
        return read_usage(self.pid) if self.alive else None

    def _start(self) -> subprocess.Popen[bytes]:
        enter = self._enter

        def prepare() -> None:
            linux.die_with_parent()
            if enter is not None:
                enter()

        errors = self._place.home.parent / f"host-{self.number}.{self.session}.err"
        with errors.open("wb") as stderr:
            return subprocess.Popen(
                self._program.command(self._place),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd=Path(__file__).parents[3],
                env={**os.environ, **self._program.environment(), **self._extra},
                preexec_fn=prepare,
                process_group=0,
            )

    async def _write(self, stdin: trio.lowlevel.FdStream) -> None:
        try:
            async for line in self._queue:
                await stdin.send_all(line)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            return  # the process is gone

    async def _read(self, stdout: trio.lowlevel.FdStream, session: int) -> None:
        rest = b""
        async for chunk in stdout:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                said = self._program.understand(line, self._messages)
                if said is not None:
                    if said.listening:
                        self.ready.set()
                    self._hear(session, said)
            if len(rest) > _LONGEST_LINE:
                raise ValueError(f"host {self.number} wrote a line without an end")
