"""Where what can be made again is kept from one command to the next."""

from __future__ import annotations

import os
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
