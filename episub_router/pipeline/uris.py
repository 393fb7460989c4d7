"""Which paths are on this machine."""

from __future__ import annotations

import re


def is_local(path: str) -> bool:
    """Whether `path` is one of this machine's file system, and no URI of Hadoop's."""
    return re.match(r"[a-z][a-z0-9+.-]*:", path) is None or path.startswith("file://")


def local_path(path: str) -> str:
    """`path`, which is local, as the functions of `os` take it."""
    return path.removeprefix("file://")
