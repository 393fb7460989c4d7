"""The report as one HTML file, which asks for nothing from anywhere."""

import re
from collections.abc import Sequence

from markupsafe import Markup, escape

from episub_router.pipeline.report import tables
from episub_router.pipeline.report.comparison import COMPARED
from episub_router.pipeline.report.figures import FIGURES
from episub_router.pipeline.report.html.charts import charts
from episub_router.pipeline.report.html.document import document, environment
from episub_router.pipeline.report.model import Report
from episub_router.pipeline.report.tables import CHANGE, Cell

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
    specs, templates = charts(report), environment()
    templates.filters |= {"words": _words, "classes": _classes}
    style, _, _ = templates.loader.get_source(templates, "report.css")  # type: ignore[union-attr]
    body = templates.get_template("report.html").render(
        report=report, rows=rows, tables=tables, specs=specs, figures=FIGURES,
        compared=COMPARED * report.compared,
        drawn=[name for name in specs if name.startswith("tree-")],
    )  # fmt: skip
    return document("Broadcast report", style, body, specs)


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
