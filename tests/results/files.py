"""Files of results: docs/results/NAME.json.

Each has the command that made it, the commit, date and machine, the seeds, and rows of plain
numbers and names. Nothing in it names a path or a host.
"""

from __future__ import annotations

import ast
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from tests.docs.snippets import ROOT

FOLDER = ROOT / "docs" / "results"

SAME = Path(__file__).with_name("same_code.json")
"""By part of the package, digests of code that gives the same results, to the byte; "PART, NAME"
are those that give the same result NAME, "gossipsub" the simulator under it (`gossipsub_code`)."""

Row = Mapping[str, Any]
"""Names and numbers by column; a column that doesn't apply is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One measurement. `code` has a digest for each part of the package that it depends on."""

    name: str
    command: str
    commit: str
    date: str
    machine: Mapping[str, Any]
    seeds: Sequence[int] = ()
    note: str = ""
    code: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    """How long the commands took."""
    gossipsub: Mapping[str, str] = field(default_factory=dict)
    """Commit and date of gossipsub's rows, which may be kept from a run before, and a digest of the
    simulator that made them."""
    rows: Sequence[Row] = ()

    def is_current(self, folder: Path = ROOT / "episub_router") -> bool:
        """Whether it was made with this tree's code; a result without digests is older."""
        return bool(self.code) and all(
            (folder / part).exists()
            and made
            in same_as(part, now := digest(folder / part)) + same_as(f"{part}, {self.name}", now)
            for part, made in self.code.items()
        )


def read(name: str, folder: Path = FOLDER) -> Result | None:
    """The result called `name`, or None where it was never made."""
    try:
        text = (folder / f"{name}.json").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return Result(**json.loads(text))


def write(result: Result, folder: Path = FOLDER) -> Path:
    """Write `result`, a line for each row; returns the file."""
    fields = {key: value for key, value in asdict(result).items() if value not in _EMPTY}
    rows = ",\n  ".join(json.dumps(rounded(row)) for row in fields.pop("rows"))
    lines = [f' "{key}": {json.dumps(value)}' for key, value in fields.items()]
    path = folder / f"{result.name}.json"
    text = ",\n".join([*lines, f' "rows": [\n  {rows}\n ]'])
    path.write_text(f"{{\n{text}\n}}\n", encoding="utf-8")
    return path


_EMPTY: tuple[object, ...] = ("", None, {}, [], ())


def rounded(row: Row) -> dict[str, Any]:
    """`row` with five significant digits, and without what doesn't apply."""
    return {
        name: float(f"{value:.5g}") if isinstance(value, float) else value
        for name, value in row.items()
        if value is not None
    }


def digest(part: Path) -> str:
    """Of the sources and scenarios below a folder or of one file; docstrings and comments of Python
    aside."""
    files = sorted(part.rglob("*")) if part.is_dir() else [part]
    found = sha256()
    for path in files:
        if path.suffix in (".py", ".toml"):
            text = path.read_text(encoding="utf-8")
            text = _code_of(text) if path.suffix == ".py" else text
            found.update(f"{path.relative_to(part)}\n{text}\n".encode())
    return found.hexdigest()[:12]


@lru_cache(1000)
def _code_of(text: str) -> str:
    """The syntax of a Python file; the parts of several results have files in common."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            body[:] = [each for each in body if not _is_text(each)]
    return ast.dump(tree)


def same_as(part: str, code: str) -> list[str]:
    """The digests of code of `part` that gives the same results as that with the digest `code`."""
    known: list[list[str]] = json.loads(SAME.read_text(encoding="utf-8")).get(part, [])
    return next((same for same in known if code in same), [code])


def note_same(part: str, before: str, now: str) -> None:
    """Code of `part` with these digests gives the same results (`same_summary`)."""
    known: dict[str, list[list[str]]] = json.loads(SAME.read_text(encoding="utf-8"))
    same = [*dict.fromkeys([*same_as(part, before), *same_as(part, now)])]
    others = [each for each in known.get(part, []) if not {*each} & {*same}]
    known[part] = [*others, same]
    SAME.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


def _is_text(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False


def digests(parts: Iterable[str], package: Path = ROOT / "episub_router") -> dict[str, str]:
    return {part: digest(package / part) for part in parts}


def commit() -> str:
    """The tree's commit; "with changes" where the sources differ from it."""
    short = _git("log", "-1", "--format=%h")
    changed = _git("status", "--porcelain", "--", "episub_router", "tests/benchmarks", "tests/sds")
    return short + (" with changes" if changed else "")


def _git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def machine() -> dict[str, Any]:
    """What this runs on, with the load before."""
    names = [
        line.partition(":")[2].strip()
        for line in _lines("/proc/cpuinfo")
        if line.startswith("model name")
    ]
    return {
        "cpu": names[0] if names else platform.machine(),
        "cores": os.cpu_count(),
        "ram_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 1),
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
