"""Trio's API refuses callers of asyncio."""

from __future__ import annotations

import asyncio


def check_not_asyncio() -> None:
    """Raises RuntimeError in an asyncio task."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return  # no asyncio loop runs in this thread
    if task is not None:
        raise RuntimeError("this is trio's, and asyncio is running: use episub_router.aio here")
