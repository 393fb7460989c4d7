"""Runs programs in processes forked from this one, which has imported what they need.

Importing py-libp2p takes two seconds of CPU time, more than most tests take of a process. The
standard input is a Unix socket: each request is a JSON object with the `program`, as
module:function, its `arguments` and its `environment`, and has four descriptors beside it, for the
standard streams and for the exit status; the answer is the process id.
"""

from __future__ import annotations

import inspect
import json
import os
import runpy
import signal
import socket
import sys
import traceback
from contextlib import suppress
from importlib import import_module
from typing import Any

import trio

STREAMS = 3
MAX_REQUEST = 1 << 16
"""Bytes."""


def serve(requests: socket.socket) -> None:
    """Fork a process for each request, until nobody is there to make one."""
    signal.signal(signal.SIGCHLD, reap)
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST, STREAMS + 1)
        if not request:
            return
        pid = os.fork()
        if not pid:
            requests.close()
            os._exit(run(json.loads(request), descriptors))
        # Here too: nobody is to kill the group before it is there.
        with suppress(OSError):
            os.setpgid(pid, pid)
        for descriptor in descriptors:
            os.close(descriptor)
        requests.send(str(pid).encode())


def reap(*given: object) -> None:
    """Wait for those that have ended; each reports its own end."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue


def run(request: dict[str, Any], descriptors: list[int]) -> int:
    """Run a program as if it had been started with these arguments and streams; its exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setpgid(0, 0)
    os.environ.clear()
    os.environ.update(request["environment"])
    *streams, status = descriptors
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    code = 1
    try:
        module, _, name = request["program"].partition(":")
        program, arguments = getattr(import_module(module), name), request["arguments"]
        if inspect.iscoroutinefunction(program):
            trio.run(program, arguments)
            code = 0
        else:
            code = program(arguments)
    except SystemExit as ending:
        code = ending.code if isinstance(ending.code, int) else 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(status, bytes([code]))
    return code


def script(arguments: list[str]) -> int:
    """Run the file that the first argument names, as Python does."""
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")
    return 0


if __name__ == "__main__":
    for module in sys.argv[1:]:
        import_module(module)
    serve(socket.socket(fileno=os.dup(0)))
