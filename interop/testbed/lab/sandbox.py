"""Namespaces of our own for a whole run, which the kernel takes down with the runner.

The runner is process 1 of a PID namespace: when it ends, for whatever reason, everything that it
started is killed, and network namespaces and mounts that nobody is in any more are gone.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from types import FrameType

from interop.testbed.lab import linux

_FLAGS = linux.CLONE_NEWNET | linux.CLONE_NEWNS | linux.CLONE_NEWPID
_TOOLS = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables"}
"""What the network is made with, and the Debian packages that have it."""


def problem(*, blocks: bool = True) -> str | None:
    """Why there can be no namespaces here, in a line; None if there can. `blocks`: some links are
    to be blocked."""
    for tool, package in _TOOLS.items():
        if tool == "nft" and not blocks:
            continue
        if shutil.which(tool, path=_path()) is None:
            return f"`{tool}` is not there (Debian: apt-get install {package})"
    child = os.fork()
    if child == 0:
        status = 0
        try:
            _separate()
        except OSError:
            status = 1
        os._exit(status)
    if os.waitpid(child, 0)[1]:
        return "no namespaces may be made here, neither as this user nor in a user namespace"
    return None


def enter() -> None:
    """Go on as process 1 of namespaces of our own.

    The process that called waits for it, hands on signals, and ends with its status; if it is
    killed, everything in the namespaces is. To be called with one thread and no event loop.
    Raises OSError if there can be none.
    """
    os.environ["PATH"] = _path()
    _separate()
    child = os.fork()
    if child:
        _wait_for(child)
    linux.die_with_parent()
    linux.mount_proc()
    # Process 1 of a namespace doesn't get what it has no handler for.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> None:
    sys.exit(128 + number)


def _separate() -> None:
    try:
        linux.unshare(_FLAGS)
    except PermissionError:
        user, group = os.geteuid(), os.getegid()
        linux.unshare(_FLAGS | linux.CLONE_NEWUSER)
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"0 {user} 1")
        _write("/proc/self/gid_map", f"0 {group} 1")
    linux.make_mounts_private()


def _wait_for(child: int) -> None:
    """Never returns."""

    def hand_on(number: int, frame: FrameType | None) -> None:
        os.kill(child, number)

    # A terminal sends Ctrl-C to the child as well, which takes the second for the first.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, hand_on)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    sys.stdout.flush()
    os._exit(status if status >= 0 else 128 - status)


def _path() -> str:
    """Where the tools are; not each user has /usr/sbin."""
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
