"""Where what can be made again is kept from one command to the next."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def cache_directory() -> Path:
    """This package's directory among the user's caches, which may not exist yet. Raises OSError for
    a user without a home directory."""
    named = os.environ.get("XDG_CACHE_HOME")
    try:
        caches = Path(named) if named else Path.home() / ".cache"
    except RuntimeError as error:
        raise FileNotFoundError(str(error)) from error
    return caches / "episub-router"


def make_room(new: Path, kept: int) -> None:
    """Remove the files of the kind of `new` that were changed longest ago, so that with it there
    are `kept`."""
    with suppress(OSError):
        others = [path for path in new.parent.glob(f"*{new.suffix}") if path != new]
        others.sort(key=lambda path: path.stat().st_mtime)
        for path in others[: 1 - kept]:
            path.unlink()
