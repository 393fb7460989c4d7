"""The report as Markdown, for pull requests."""

import re

from episub_router.pipeline.report import tables
from episub_router.pipeline.report.model import Report
from episub_router.pipeline.report.tables import Table

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~@])")


def as_markdown(report: Report) -> str:
    """Verdict, tables and notes."""
    parts = ["# Broadcast report", "", _escaped(tables.headline(report)), ""]
    named = {
        "": tables.about(report),
        **tables.verdicts(report),
        "Faults": tables.faults(report),
        "Causes": tables.causes(report),
        "Without the faults": tables.rests(report),
        "Worst peers": tables.worst(report),
        **tables.groups(report),
        "What is missing": tables.missing(report),
        "Duplicates": tables.duplicates(report),
        "Rejected, dropped, discarded": tables.losses(report),
        "Control": tables.control(report),
        "Recovery": tables.recoveries(report),
        "Load": tables.load(report),
        "SDS": tables.channels(report),
        "Clocks that are off most": tables.clocks(report),
    }
    for title, table in named.items():
        if table.rows:
            parts += [*([f"## {title}", ""] if title else []), *_table(table), ""]
    parts += ["## Data quality", "", *(f"- {_escaped(note)}" for note in report.notes)]
    return "\n".join(parts) + "\n"


def _table(table: Table) -> list[str]:
    heads = " | ".join(_escaped(head) or " " for head in table.heads)
    rows = [
        " | ".join(_escaped(f"{cell.text} {cell.tone}".strip()) for cell in row)
        for row in table.rows
    ]
    line = " | ".join(["---", *["---:"] * (len(table.heads) - 1)])
    return [f"| {row} |" for row in (heads, line, *rows)]


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", " ".join(text.splitlines()))
