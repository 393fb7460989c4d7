"""Spark's classes as the JVM wants them in memory, kept from one command to the next (class data
sharing): to find, read and verify them is most of what a short command takes.

The JVM makes the archive when the first command has ended, in some seconds of its own, takes no
notice of one that doesn't fit it, and writes the header last, so that half of one is known as such.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import pyspark

from episub_router.util.caches import cache_directory, make_room

_BASE = ("lib", "server", "classes.jsa")
"""Of the Java itself, which ours is added to; a Java without it can't make one."""

_MODULES = "no module is added"
"""What the JVM is started with that `options` doesn't know of."""

_MAGIC = 4
"""Bytes that an archive begins with."""

_KEPT = 4
"""Archives at most, of some 170 MB each. Ours: two kinds of commands, and those of an update."""


def options(java: str, others: str) -> str:
    """With which options beside `others` the JVM of the executable `java` takes the archive, or
    makes it; none where it can't."""
    home = Path(java).resolve().parents[1]
    base = home.joinpath(*_BASE).resolve()
    jars = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent, "jars")
    try:
        made_of = [f"{path} {path.stat().st_mtime_ns}" for path in (base, jars)]
        path = cache_directory() / f"{_digest(*made_of, others, _MODULES)}.jsa"
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError:
        return ""
    # Spark parts the options at spaces.
    if any(character in str(path) for character in " \"'\\"):
        return ""
    use = "SharedArchiveFile"
    if _is_whole(path):
        # Those that are used stay when room is made.
        with suppress(OSError):
            os.utime(path)
    else:
        use = "ArchiveClassesAtExit"
        make_room(path, _KEPT)
    # Of many classes, it would say why they can't be in it.
    return f"-Xlog:disable -XX:{use}={path}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _is_whole(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return any(file.read(_MAGIC))
    except OSError:
        return False
