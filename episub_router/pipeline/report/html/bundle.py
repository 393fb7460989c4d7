"""The JavaScript that draws a page's charts, kept among the user's caches: to put it together
takes a second, and it is the same until the library that does it is another."""

from __future__ import annotations

import os
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import vl_convert

from episub_router.util.caches import cache_directory, make_room

_SNIPPET = "window.vegaEmbed = vegaEmbed;"
_END = "\n// That is all of it.\n"
"""What a kept bundle ends with: without it, half of one is there."""
_KEPT = 2
"""Bundles at most, of a megabyte each. Ours: that of now, and of before an update."""


def javascript() -> str:
    """The bundle, from the caches where it is there."""
    try:
        made_of = f"{getattr(vl_convert, '__version__', None)}\n{_SNIPPET}{_END}"
        path = cache_directory() / f"vega-{sha256(made_of.encode()).hexdigest()[:16]}.js"
    except OSError:
        return _made()
    with suppress(OSError, UnicodeDecodeError):
        kept = path.read_text(encoding="utf-8")
        if kept.endswith(_END):
            return kept
    made = _made()
    with suppress(OSError):
        _keep(path, made)
    return made


def _made() -> str:
    return str(vl_convert.javascript_bundle(_SNIPPET)) + _END


def _keep(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    begun = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        begun.write_text(text, encoding="utf-8")
        # Another command finds all of it or nothing.
        begun.replace(path)
    finally:
        begun.unlink(missing_ok=True)
    make_room(path, _KEPT)
