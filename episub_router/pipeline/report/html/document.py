"""One HTML file with charts, which asks for nothing from anywhere."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import vl_convert
from jinja2 import Environment, PackageLoader
from markupsafe import Markup

from episub_router.pipeline.storage import Storage


@cache
def environment() -> Environment:
    """The templates beside this file. What is put into them is escaped."""
    loader = PackageLoader("episub_router.pipeline.report.html", ".")
    return Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)


def document(title: str, style: str, body: str, specs: Mapping[str, Any]) -> str:
    """The file's text: `body` is HTML, with an element for the id of each of `specs`, charts of
    Vega-Lite."""
    # Names in it come from traces; none may end the script that it is in.
    safe = json.dumps(specs).replace("<", "\\u003c")
    return (
        environment()
        .get_template("document.html")
        .render(
            title=title, style=Markup(style), body=Markup(body), specs=Markup(safe),
            javascript=Markup(javascript()),
        )
    )  # fmt: skip


@cache
def javascript() -> str:
    """Vega and what embeds its charts, as one script. To put it together takes longer than all else
    that a page takes, so the user's cache keeps it."""
    # Without a home there is no cache.
    with suppress(OSError, RuntimeError):
        return _kept().read_text(encoding="utf-8")
    made = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;")
    with suppress(OSError, RuntimeError):
        Storage().put(str(_kept()), made)
    return made


def _kept() -> Path:
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return cache_home / "episub" / f"vega-{version('vl-convert-python')}.js"
