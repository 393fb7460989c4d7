"""What writes the traces."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def software() -> str:
    """Name and version, for the headers of traces."""
    try:
        return f"episub-router/{version('episub-router')}"
    except PackageNotFoundError:
        return "episub-router"
