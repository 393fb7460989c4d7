"""The budget of rules: how large each part of the package is. Prints a table.

    python -m tests.house.budget [--write]

`--write` puts the table into docs/design.md. A part that grows fails a test until somebody writes
the table anew, and says in that commit which figure it buys.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from tests.docs import marked

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "episub_router"
PAGE = ROOT / "docs" / "design.md"

PARTS = (
    "protocol/hyparview", "protocol/plumtree", "protocol/standing", "protocol/pieces", "protocol",
    "net", "fallback", "pubsub", "sds", "pipeline", "sim", "trace", "wire", "cli", "util", "",
)  # fmt: skip
"""Folders of the package, each with all that is below it; "" is the whole."""

BEGIN, END = "<!-- budget: parts -->\n", "\n<!-- end -->"


class Size(NamedTuple):
    """What one part has; lines count blank ones and comments."""

    lines: int
    files: int
    classes: int
    constants: int
    parameters: int


def sources(part: str) -> Iterator[Path]:
    """The files of a part that somebody wrote."""
    return (path for path in sorted((PACKAGE / part).rglob("*.py")) if "_pb2" not in path.stem)


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def is_constant(node: ast.stmt) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return any(re.fullmatch(r"_?[A-Z][A-Z0-9_]+", name) for name in names)


def parameters(path: Path) -> int:
    """Fields of the params dataclasses in a module named `params`."""
    if path.stem != "params" or path.parent.name == "util":
        return 0
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    own = [value for value in vars(import_module(name)).values() if is_dataclass(value)]
    return sum(
        "unit" in field.metadata
        for value in own
        if getattr(value, "__module__", "") == name
        for field in fields(value)
    )


def measure(part: str) -> Size:
    """The size of one part."""
    paths = [*sources(part)]
    bodies = [tree_of(path) for path in paths]
    return Size(
        lines=sum(len(path.read_text().splitlines()) for path in paths),
        files=len(paths),
        classes=sum(isinstance(node, ast.ClassDef) for body in bodies for node in ast.walk(body)),
        constants=sum(is_constant(node) for body in bodies for node in body.body),
        parameters=sum(map(parameters, paths)),
    )


def table() -> str:
    """All parts as a table in Markdown."""
    there = (part for part in PARTS if (PACKAGE / part).is_dir())
    rows = [(f"`{p}/`" if p else "all", *(f"{n:,}" for n in measure(p))) for p in there]
    return marked.table(("part", *Size._fields), rows)


def written() -> dict[str, Size]:
    """The sizes that docs/design.md has, by part."""
    page = PAGE.read_text()
    rows = page.partition(BEGIN)[2].partition(END)[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("| ").split("|")] for row in rows if row]
    return {
        "" if name == "all" else name.strip("`/"): Size(*(int(c.replace(",", "")) for c in figures))
        for name, *figures in cells
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the table into docs/design.md")
    found = table()
    if parser.parse_args().write:
        before, begin, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(f"{before}{begin}{found}{END}{rest.partition(END)[2]}")
    print(found)


if __name__ == "__main__":
    main()
