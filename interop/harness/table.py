"""The table of what was run against what, in docs/interop.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from interop.harness.kinds import ROOT

DOCUMENT = ROOT / "docs" / "interop.md"
_BEGIN = "<!-- interop: matrix -->\n"
_END = "<!-- end -->"


@dataclass(frozen=True, slots=True)
class Result:
    """One test: its module and function, the id of its parameters, and how it ended."""

    module: str
    function: str
    cell: str
    outcome: str


def render(results: Iterable[Result], versions: Mapping[str, Mapping[str, str]]) -> str:
    """The versions of each kind of peer, and for each test its cells by outcome."""
    lines = ["| peer | versions |", "|---|---|"]
    for kind, found in sorted(versions.items()):
        lines.append(f"| {kind} | {', '.join(f'{n} {v}' for n, v in sorted(found.items()))} |")
    tests: dict[tuple[str, str], dict[str, list[str]]] = {}
    for result in results:
        outcomes = tests.setdefault((result.module, result.function), {})
        outcomes.setdefault(result.outcome, []).append(result.cell)
    lines += ["", "| test | cells | outcome |", "|---|---|---|"]
    for (module, function), outcomes in sorted(tests.items()):
        for outcome, unordered in sorted(outcomes.items()):
            cells = sorted(unordered)
            name = function.removeprefix("test_").replace("_", " ")
            named = ", ".join(f"`{cell}`" for cell in cells if cell)
            lines.append(f"| {module.removeprefix('test_')}: {name} | {named or '1'} | {outcome} |")
    return "\n".join(lines) + "\n"


def write(table: str, document: Path = DOCUMENT) -> None:
    """Put the table in its place in the document. Raises ValueError if it has no such place."""
    text = document.read_text(encoding="utf-8")
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError(f"{document} has no place for the table")
    document.write_text(f"{before}{begin}\n{table}\n{end}{after}", encoding="utf-8")
