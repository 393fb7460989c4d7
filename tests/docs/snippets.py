"""Find the fenced code of a Markdown text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

_FENCE = re.compile(r"^```(\w*)\s*$")
_NO_RUN = re.compile(r"^<!-- no-run: (.+?) -->$")


@dataclass(frozen=True, slots=True)
class Snippet:
    """A fenced block. `no_run` is the reason why it is not run, or None; `line` its first line."""

    path: Path
    line: int
    language: str
    text: str
    no_run: str | None

    def __str__(self) -> str:
        return f"{self.path.name}:{self.line}"


def documents() -> list[Path]:
    """The Markdown files that users read: README.md and docs/."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]


def snippets(path: Path) -> Iterator[Snippet]:
    """The fenced blocks of a file, in order. A fence that isn't closed raises ValueError."""
    opened = 0
    language = ""
    body: list[str] = []
    reason: str | None = None
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        if opened and line.rstrip() == "```":
            yield Snippet(path, opened + 1, language, "\n".join(body) + "\n", reason)
            opened, reason = 0, None
        elif opened:
            body.append(line)
        elif fence := _FENCE.match(line):
            opened, language, body = number, fence[1], []
        elif line.strip():
            mark = _NO_RUN.match(line.strip())
            reason = mark[1] if mark else None
    if opened:
        raise ValueError(f"{path.name}:{opened}: the fence is not closed")


def all_snippets(language: str) -> list[Snippet]:
    """Every snippet of `language` in the documents."""
    return [s for path in documents() for s in snippets(path) if s.language == language]


def commands(snippet: Snippet) -> list[str]:
    """The command lines of an sh snippet, without comments; continued lines are joined."""
    joined = snippet.text.replace("\\\n", " ")
    lines = (line.strip() for line in joined.splitlines())
    return [line for line in lines if line and not line.startswith("#")]
