"""Where what can be made again is kept from one command to the next."""

from __future__ import annotations

import os
from pathlib import Path


def cache_directory() -> Path:
    """This package's directory among the user's caches, which may not exist yet."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches, "episub-router")
