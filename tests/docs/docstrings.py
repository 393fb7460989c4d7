"""Tables of docstrings: a package's modules, and the events that applications get."""

from __future__ import annotations

import ast
from typing import get_args

from episub_router.net.events import TopicEvent
from tests.docs.snippets import ROOT


def modules(package: str) -> str:
    """Each module of a package, with the first paragraph of its docstring."""
    folder = ROOT / "episub_router" / package
    rows = []
    for path in sorted(folder.rglob("*.py"), key=lambda path: (path.parent, path)):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        if path.name != "__init__.py":
            said = line(text.partition("\n\n")[0])
            rows.append(f"| `{path.relative_to(folder).as_posix()}` | {said} |")
    return "\n".join(["| module | what it is |", "|---|---|", *rows])


def events(_: str) -> str:
    rows = [f"| `{each.__name__}` | {line(each.__doc__)} |" for each in get_args(TopicEvent)]
    return "\n".join(["| event | meaning |", "|---|---|", *rows])


def line(text: str | None) -> str:
    """`text` on one line."""
    return " ".join((text or "").split())
