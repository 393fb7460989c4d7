"""The clauses of the specifications, from docs/conformance.toml, and the tables of the page."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass

from tests.docs import marked
from tests.docs.snippets import ROOT

PATH = ROOT / "docs" / "conformance.toml"
CLAUSES = {
    "membership": [f"E{n:02}" for n in range(1, 22)],
    "broadcast": [f"E{n}" for n in range(30, 43)],
    "SDS": [f"S{n:02}" for n in range(1, 17)],
    "simulator": [f"G{n:02}" for n in range(1, 4)],
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Clause:
    """What a clause asks for, where it is done, what fails without it, how its text is read."""

    clause: str
    modules: Sequence[str]
    tests: Sequence[str]
    read: str = ""


def clauses() -> dict[str, Clause]:
    found = tomllib.loads(PATH.read_text(encoding="utf-8"))
    return {name: Clause(**fields) for name, fields in found.items()}


def table(part: str) -> str:
    """The rows of one of `CLAUSES`."""
    found = clauses()
    rows = []
    for name in CLAUSES[part]:
        each = found[name]
        tests = [test.partition("::")[0] for test in each.tests]
        rows.append((name, each.clause, each.read, _named(each.modules), _named(tests)))
    return marked.table(("id", "clause", "how we read it", "modules", "tests"), rows)


def _named(paths: Sequence[str]) -> str:
    """The files, without their folders."""
    return ", ".join(dict.fromkeys(f"`{path.rpartition('/')[2]}`" for path in paths))
