"""Tables of docstrings: layers, a package's modules, and the events that applications get."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path
from typing import get_args

from episub_router.net.events import TopicEvent
from tests.docs import marked
from tests.docs.snippets import ROOT

PACKAGE = ROOT / "episub_router"


def layers(_: str) -> str:
    """The layers that import-linter checks, from above; each package with its docstring."""
    tools = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    rows = []
    for layer in tools["importlinter"]["contracts"][0]["layers"]:
        for number, name in enumerate(layer.split(" | ")):
            folder = PACKAGE / name
            said = summary(folder / "__init__.py" if folder.is_dir() else PACKAGE / f"{name}.py")
            rows.append(("" if number else "▾", f"`{name}`", said))
    return marked.table(("", "package", "what it is"), rows)


def modules(package: str) -> str:
    """Each module of a package."""
    folder = PACKAGE / package
    paths = sorted(folder.rglob("*.py"), key=lambda path: (path.parent, path))
    rows = [
        (f"`{path.relative_to(folder).as_posix()}`", summary(path))
        for path in paths
        if path.name != "__init__.py"
    ]
    return marked.table(("module", "what it is"), rows)


def summary(path: Path) -> str:
    """The first paragraph of a module's docstring."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return line(text.partition("\n\n")[0])


def events(_: str) -> str:
    rows = [(f"`{each.__name__}`", line(each.__doc__)) for each in get_args(TopicEvent)]
    return marked.table(("event", "meaning"), rows)


def line(text: str | None) -> str:
    """`text` on one line."""
    return " ".join((text or "").split())
