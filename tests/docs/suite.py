"""Tables of py-libp2p's own tests, from tests/upstream/suite.toml."""

from __future__ import annotations

import tomllib
from collections import Counter

from tests.docs import marked
from tests.docs.snippets import ROOT


def table(of: str) -> str:
    """The `groups` of tests, or the `files` of those that run."""
    path = ROOT / "tests" / "upstream" / "suite.toml"
    groups = tomllib.loads(path.read_text(encoding="utf-8"))["group"]
    if of == "files":
        running = [test for group in groups if group["modes"] for test in group["tests"]]
        files = Counter(test.partition("::")[0] for test in running)
        rows = [(f"`{name}`", number) for name, number in sorted(files.items())]
        return marked.table(("file", "number"), rows)
    found = [
        (group["name"], len(group["tests"]), ", ".join(group["modes"]) or "no", group["reason"])
        for group in groups
    ]
    return marked.table(("tests", "number", "run", "why"), found)
