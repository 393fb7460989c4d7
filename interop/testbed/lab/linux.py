"""The few system calls that Python 3.11 has no names for."""

from __future__ import annotations

import ctypes
import os
import signal

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
"""linux/sched.h."""

_PR_SET_PDEATHSIG = 1
_MS_REC = 0x4000
_MS_PRIVATE = 1 << 18
_MS_BIND = 0x1000
"""linux/prctl.h and sys/mount.h."""

_libc = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Leave the namespaces that `flags` name for new ones. Raises OSError."""
    _check(_libc.unshare(flags), "unshare")


def setns(fd: int, kind: int) -> None:
    """Enter the namespace that `fd` is open on. Raises OSError."""
    _check(_libc.setns(fd, kind), "setns")


def die_with_parent() -> None:
    """Get SIGKILL when the thread that started this process ends."""
    _check(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL), "prctl")


def make_mounts_private() -> None:
    """Keep what is mounted from here on in this mount namespace. Raises OSError."""
    _mount("none", "/", None, _MS_REC | _MS_PRIVATE)


def mount_proc() -> None:
    """Have /proc show this PID namespace. Raises OSError."""
    _mount("proc", "/proc", "proc", 0)


def mount_tmpfs(path: str, size: int) -> None:
    """Mount a file system of `size` bytes at `path`. Raises OSError."""
    _mount("tmpfs", path, "tmpfs", 0, f"size={size}")


def bind(source: str, target: str) -> None:
    """Have `target` show what `source` is. Raises OSError."""
    _mount(source, target, None, _MS_BIND)


def _mount(source: str, target: str, kind: str | None, flags: int, data: str = "") -> None:
    result = _libc.mount(
        source.encode(),
        target.encode(),
        None if kind is None else kind.encode(),
        ctypes.c_ulong(flags),
        data.encode() or None,
    )
    _check(result, f"mount {target}")


def _check(result: int, what: str) -> None:
    if result:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
