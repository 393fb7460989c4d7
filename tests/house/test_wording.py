"""Comments, docstrings and documents are plain engineering English."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PERSONAL = re.compile(r"\b(who|whom|whoever|heard|told)\b", re.IGNORECASE)
"""Words for people. A peer "that", which "receives" and is "notified"."""

QUOTED = re.compile(r"`[^`]*`|/who\b")
"""Names in code, tests' among them, and a command of the chat."""

FOLDERS = ("episub_router", "interop/harness", "interop/py", "interop/testbed", "tests/interop")


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The comments and all longer strings of a module, or the lines of a document."""
    text = path.read_text()
    if path.suffix == ".md":
        yield from enumerate(text.splitlines(), 1)
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


@pytest.mark.parametrize("folder", [*FOLDERS, "docs"])
def test_no_word_for_people_stands_for_a_peer(folder: str) -> None:
    files = [*(ROOT / folder).rglob("*.py"), *(ROOT / folder).rglob("*.md")]
    assert files
    found = [
        f"{path.relative_to(ROOT)}:{line}: {text.strip()[:80]}"
        for path in files
        for line, text in prose(path)
        if PERSONAL.search(QUOTED.sub("", text))
    ]
    assert not found, "\n".join(found)
