"""The report as one HTML file, which asks for nothing from anywhere."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from itertools import repeat
from urllib.parse import quote

from episub_router.pipeline.report import tables
from episub_router.pipeline.report.comparison import COMPARED
from episub_router.pipeline.report.figures import FIGURES
from episub_router.pipeline.report.html.charts import charts
from episub_router.pipeline.report.html.document import document
from episub_router.pipeline.report.model import Report
from episub_router.pipeline.report.tables import CHANGE, Cell, Table

_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1b1b1b; background: #fff; margin: 0 auto;
  max-width: 60rem; padding: 1rem; }
h1 { font-size: 1.6rem; margin: 0 0 .5rem; } h2 { font-size: 1.2rem; margin: 1.7rem 0 .3rem; }
h3 { font-size: 1rem; margin: 1rem 0 .2rem; }
p { margin: .3rem 0; max-width: 46rem; overflow-wrap: break-word; }
.verdict { font-size: 1.1rem; }
.scroll { overflow-x: auto; margin: .6rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { text-align: right; padding: .25rem .6rem; border-bottom: 1px solid #e4e4e4;
  vertical-align: top; }
th:first-child, td:first-child { text-align: left; position: sticky; left: 0; background: #fff; }
th { border-bottom: 2px solid #888; } td { white-space: nowrap; }
th { min-width: 3.5rem; max-width: 11rem; overflow-wrap: break-word; }
.words td, .words th { text-align: left; white-space: normal; } .words th { min-width: 2rem; }
.words th, .words td { padding: .25rem .5rem; }
.words .name { white-space: nowrap; }
.sides { table-layout: fixed; width: 100%; }
.sides th { max-width: none; overflow-wrap: anywhere; }
.id { display: inline-block; min-width: 8rem; overflow-wrap: anywhere; }
.sides .id { display: inline; }
.better { color: #00684a; } .worse { color: #b00020; }
.better::after { content: " better"; } .worse::after { content: " worse"; }
summary { cursor: pointer; color: #00508a; } details { margin: .4rem 0; }
.chart { width: 100%; min-height: 40px; } .drawing { max-width: 32rem; }
.vega-embed { width: 100%; } dt { font-weight: 600; } dd { margin: 0 0 .4rem 1rem; }
li { overflow-wrap: break-word; }
@media (max-width: 40rem) {
  table { font-size: .78rem; } th, td { padding: .25rem .35rem; }
  td:first-child, .change { white-space: normal; }
  .cards, .cards tbody, .cards tr { display: block; } .cards thead { display: none; }
  .cards tr { padding: .4rem 0; border-bottom: 1px solid #888; }
  .cards td { display: flow-root; border: 0; padding: .1rem 0 .1rem 7rem; }
  .cards .name { white-space: normal; }
  .cards td::before { content: attr(data-head); float: left; width: 6.5rem; margin-left: -7rem;
    color: #555; }
}
"""

_TIMELINE = (
    "The p99 of each message's deliveries by the time of its publishing; a cross is a message that "
    "didn't get to all. Bands are cuts, stops and times in which processes were down, a dotted "
    "line is another fault, and the dashed one the deadline."
)
_NARROW = 4
"""Columns that a phone has room for; the rows of other tables become cards there."""
_NAME = 20
"""Letters of a word that isn't broken; longer ones are ids, and would be wider than a page."""

_GROUPS = {
    "By software": "Peers by what the headers of their traces name.",
    "By protocol": "Peers by the protocols that others opened streams to them with.",
    "By region": "Peers by where they are.",
}
_CHARTS = {
    "latency": ("Latency", "The share of the deliveries that took at most so long. The axis is "
                "logarithmic; what took less than 1 ms is drawn there."),
    "rmr": ("RMR by message", "The first messages build the tree: redundancy falls as it settles."),
    "ldh": ("LDH by message", "Hops of the last delivery: the depth of the tree."),
    "duplicates": ("Duplicates and control", "Copies that reached a peer which had the message, "
                   "what was refused, and what else was sent."),
    "degrees": ("Degrees", "Links per peer at the end of the run."),
    "proximity": ("Proximity over time", "Mean round trip of the active links over that of all "
                  "measured pairs: less is nearer."),
    "recovery": ("Recovery", "What it took until all messages got to all again."),
    "load": ("Load per peer", "Messages that each peer sent, the busiest first."),
}  # fmt: skip


def as_html(report: Report, rows: Sequence[str] = ()) -> str:
    """The page. `rows` are files beside it that have the rows behind the figures."""
    specs = charts(report)
    parts = [
        "<h1>Broadcast report</h1>",
        f'<p class="verdict">{_text(tables.headline(report))}</p>',
    ]
    if "timeline" in specs:
        parts.append('<div class="chart" id="timeline"></div>')
        parts.append(f"<p>{_text(_TIMELINE)}</p>")
    (glance, table), *verdicts = tables.verdicts(report).items()
    parts += [
        f"<h2>{glance}</h2>",
        _table(table, "sides"),
        f"<p>The deadline is {report.deadline:g} s; the words are defined "
        '<a href="#definitions">below</a>. Coloured is what differs by more than chance: with '
        f"95\u00a0% confidence in all {COMPARED} figures together, by the runs' seeds.</p>",
        *(_folded(table, group, "sides") for group, table in verdicts),
        _folded(tables.about(report), "What was run"),
    ]
    if tables.causes(report).rows:
        parts += [
            "<h2>Why deliveries were late or lost</h2>",
            _table(tables.causes(report)),
            _table(tables.faults(report)) if tables.faults(report).rows else "",
            _folded(tables.rests(report), "What was published without any fault"),
        ]
    if tables.worst(report).rows:
        parts.append(_folded(tables.worst(report), "The peers that fared worst"))
    for title, table in tables.groups(report).items():
        if table.rows:
            parts.append(_folded(table, f"{title}: {_GROUPS[title]}"))
    below: dict[str, list[Table]] = {
        "latency": [tables.missing(report)],
        "duplicates": [tables.duplicates(report), tables.losses(report), tables.control(report)],
        "recovery": [tables.recoveries(report)],
        "load": [tables.load(report)],
    }
    for name, (title, text) in _CHARTS.items():
        shown = [table for table in below.get(name, ()) if table.rows]
        if name not in specs and not shown:
            continue
        parts += [f"<h2>{title}</h2>", f"<p>{_text(text)}</p>"]
        if name in specs:
            parts.append(f'<div class="chart" id="{name}"></div>')
        parts += [_folded(table, ", ".join(table.heads)) for table in shown]
    parts += _drawings(report, specs)
    for name in rows:
        parts.append(
            f'<p>All rows behind these figures: <a href="{escape(quote(name))}">{escape(name)}</a>.'
            "</p>"
        )
    channels = tables.channels(report)
    if channels.rows:
        parts.append(_folded(channels, "SDS"))
    parts += ["<details><summary>Data quality</summary>", "<ul>"]
    parts += [f"<li>{_text(note)}</li>" for note in report.notes]
    parts += ["</ul></details>"]
    clocks = tables.clocks(report)
    if clocks.rows:
        parts.append(_folded(clocks, "The clocks that are off most"))
    parts += ['<details id="definitions"><summary>Definitions</summary>', "<dl>"]
    for figure in FIGURES:
        parts.append(f"<dt>{escape(figure.label)}</dt><dd>{escape(figure.definition)}</dd>")
    parts.append("</dl></details>")
    return document("Broadcast report", _STYLE, "\n".join(parts), specs)


def _drawings(report: Report, specs: Mapping[str, object]) -> list[str]:
    titles = tables.titles(report.topics)
    drawn = [n for n in range(len(titles)) if f"tree-{n}" in specs]
    if not drawn:
        return []
    parts = [
        "<h2>Tree and overlay</h2>",
        "<p>The way of the last of the messages that reached most, blue, from its publisher in the "
        "middle; grey are the overlay's other links.</p>",
    ]
    for number in drawn:
        parts.append(f"<p>{_text(titles[number])}</p>")
        parts.append(f'<div class="chart drawing" id="tree-{number}"></div>')
    return parts


def _table(table: Table, kind: str = "words") -> str:
    if kind == "words" and len(table.heads) > _NARROW:
        kind = "words cards"
    heads = "".join(f"<th>{_text(head)}</th>" for head in table.heads)
    rows = "".join(
        "<tr>" + "".join(map(_cell, row, table.heads, repeat(kind))) + "</tr>" for row in table.rows
    )
    # Each side needs some room; where there are many, the table scrolls.
    sides = len(table.heads)
    room = f' style="min-width: {5 * sides}rem; max-width: {12 * sides}rem"'
    least = room if kind == "sides" else ""
    return (
        f'<div class="scroll"><table class="{kind}"{least}><thead><tr>{heads}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _cell(cell: Cell, head: str, kind: str) -> str:
    is_name = kind != "sides" and 0 < len(cell.text) <= _NAME and " " not in cell.text
    classes = [*cell.tone.split(), *(["change"] if head == CHANGE else []),
               *(["name"] if is_name else [])]  # fmt: skip
    about = f' class="{" ".join(classes)}"' if classes else ""
    named = f' data-head="{escape(head)}"' if kind.endswith("cards") else ""
    return f"<td{about}{named}>{_text(cell.text)}</td>"


def _text(text: str) -> str:
    """`text` as HTML: a number and its unit stay together, ids of peers are shown by their ends,
    and other long words may be broken."""
    return " ".join(map(_word, _TOGETHER.sub("\u00a0", text).split(" ")))


def _word(word: str) -> str:
    peer = _PEER.fullmatch(word)
    if peer:
        return f'<span title="{peer[1]}">…{peer[1][-_TOLD_APART:]}</span>{escape(peer[2])}'
    if len(word) > _NAME:
        return f'<span class="id">{_INSIDE.sub("<wbr>", escape(word))}</span>'
    return escape(word)


_PEER = re.compile(r"((?:12D3KooW|16Uiu2HA|Qm)[1-9A-HJ-NP-Za-km-z]{30,})(\W?)")
_TOLD_APART = 6
"""Last letters of a peer's id, by which thousands are told apart."""

_TOGETHER = re.compile(
    r"(?<=\d) (?=(?:ns|µs|ms|s|B|%)(?:\W|$))|(?<=\d) (?=of \d)|(?<=\d of) (?=\d)"
)
_INSIDE = re.compile(r"(?<=\w[-_./=:])(?=[A-Za-z])")
"""Where an id is broken first."""


def _folded(table: Table, title: str, kind: str = "words") -> str:
    """Behind a click."""
    count = f"{len(table.rows)} rows" if len(table.rows) > 1 else "1 row"
    return (
        f"<details><summary>{_text(title)} ({count})</summary>{_table(table, kind)}</details>"
        if table.rows
        else ""
    )
