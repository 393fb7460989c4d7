"""The report as one HTML file, which asks for nothing from anywhere."""

import json
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

import vl_convert
from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from episub_router.pipeline.report import tables
from episub_router.pipeline.report.comparison import COMPARED
from episub_router.pipeline.report.figures import FIGURES
from episub_router.pipeline.report.html.charts import charts
from episub_router.pipeline.report.model import Report
from episub_router.pipeline.report.tables import CHANGE, Cell
from episub_router.pipeline.storage import Storage

_NAME = 20
"""Letters of a word that isn't broken; longer ones are ids, and would be wider than a page."""

_ID = re.compile(r"((?:12D3KooW|16Uiu2HA|Qm)[1-9A-HJ-NP-Za-km-z]{30,}|[0-9a-f]{40,})(\W?)")
_TOLD_APART = 6
"""Last letters of an id of a peer or a message, by which thousands are told apart."""

_TOGETHER = re.compile(
    r"(?<=\d) (?=(?:ns|µs|ms|s|B|%)(?:\W|$))|(?<=\d) (?=of \d)|(?<=\d of) (?=\d)"
)


def as_html(report: Report, rows: Sequence[str] = ()) -> str:
    """The page. `rows` are files beside it that have the rows behind the figures."""
    specs, beside = charts(report), PackageLoader("episub_router.pipeline.report.html", ".")
    # What is put into templates is escaped.
    templates = Environment(loader=beside, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    templates.filters |= {"words": _words, "classes": _classes}
    style, _, _ = beside.get_source(templates, "report.css")
    body = templates.get_template("report.html").render(
        report=report, rows=rows, tables=tables, specs=specs, figures=FIGURES,
        compared=COMPARED * report.compared,
        drawn=[name for name in specs if name.startswith("tree-")],
    )  # fmt: skip
    # Names in it come from traces; none may end the script that it is in.
    safe = json.dumps(specs).replace("<", "\\u003c")
    return templates.get_template("document.html").render(
        title="Broadcast report", style=Markup(style), body=Markup(body), specs=Markup(safe),
        javascript=Markup(javascript()),
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


def _classes(cell: Cell, head: str, kind: str) -> Markup:
    is_name = kind != "sides" and 0 < len(cell.text) <= _NAME and " " not in cell.text
    classes = [*cell.tone.split(), *["change"][: head == CHANGE], *["name"][:is_name]]
    return Markup(' class="{}"').format(" ".join(classes)) if classes else Markup()


def _words(text: str) -> Markup:
    """`text` as HTML: a number and its unit stay together, ids are shown by their ends,
    and other long words may be broken."""
    return Markup(" ").join(map(_word, _TOGETHER.sub("\u00a0", text).split(" ")))


def _word(word: str) -> Markup:
    found = _ID.fullmatch(word)
    if found:
        shown = Markup('<span title="{}">…{}</span>{}')
        return shown.format(found[1], found[1][-_TOLD_APART:], found[2])
    if len(word) > _NAME:
        return Markup('<span class="id">{}</span>').format(word)
    return escape(word)
