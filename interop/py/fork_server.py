"""Starts peers of py-libp2p by forking a process that has imported it.

The import takes a second and a half of CPU time, more than most tests take of a peer. The standard
input is a Unix socket: each request is a JSON list of arguments, with four descriptors for the
standard streams and for the exit status; the answer is the process id.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import traceback

import trio

from interop.py.peer import main as run_peer

STREAMS = 3
MAX_REQUEST = 1 << 16
"""Bytes."""


def serve(requests: socket.socket) -> None:
    """Fork a peer for each request, until nobody is there to make one."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombies: a peer reports its own end
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, MAX_REQUEST, STREAMS + 1)
        if not request:
            return
        pid = os.fork()
        if not pid:
            requests.close()
            os._exit(be_a_peer(json.loads(request), descriptors))
        for descriptor in descriptors:
            os.close(descriptor)
        requests.send(str(pid).encode())


def be_a_peer(arguments: list[str], descriptors: list[int]) -> int:
    """Run a peer as if it had been started with these arguments and streams; its exit status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.setsid()
    *streams, status = descriptors
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    code = 1
    try:
        trio.run(run_peer, arguments)
        code = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os.write(status, bytes([code]))
    return code


if __name__ == "__main__":
    serve(socket.socket(fileno=os.dup(0)))
