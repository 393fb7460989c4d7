"""docs/conformance.md has a row for each clause, and what its rows name exists."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.docs.snippets import ROOT

CLAUSES = [
    *(f"E{n:02}" for n in range(1, 22)),
    *(f"E{n}" for n in range(30, 43)),
    *(f"S{n:02}" for n in range(1, 17)),
    *(f"G{n:02}" for n in range(1, 4)),
]
COLUMNS = ["id", "clause", "state", "module", "tests", "how we read it"]


@dataclass(frozen=True, slots=True)
class Row:
    """One clause; `modules` and `tests` are paths from the repository's root."""

    id: str
    state: str
    modules: list[str]
    tests: list[str]


def rows(text: str) -> list[Row]:
    """The rows of every table in `text`. A table of another shape raises ValueError."""
    found = []
    for line in text.splitlines():
        if not line.startswith("|") or line.startswith("|---"):
            continue
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if cells == COLUMNS:
            continue
        if len(cells) != len(COLUMNS):
            raise ValueError(f"not {len(COLUMNS)} cells: {line}")
        found.append(Row(cells[0], cells[2], _paths(cells[3]), _paths(cells[4])))
    return found


def _paths(cell: str) -> list[str]:
    return [path.strip().strip("`") for path in cell.split(",") if path.strip()]


def problems(row: Row) -> list[str]:
    """What is wrong with a row."""
    wrong = [f"{path} does not exist" for path in row.modules if not (ROOT / path).is_file()]
    wrong += [f"{test} does not exist" for test in row.tests if not is_there(test)]
    if row.state == "done":
        if not row.modules:
            wrong.append("done, but no module is named")
        if not row.tests:
            wrong.append("done, but no test is named")
    elif not row.state.startswith("not yet: "):
        wrong.append(f"the state is neither 'done' nor 'not yet: area': {row.state!r}")
    return [f"{row.id}: {problem}" for problem in wrong]


def is_there(name: str) -> bool:
    """Whether the test `tests/a/test_b.py`, optionally with `::name` or `::Class::name`, exists."""
    path, *parts = name.split("::")
    if not (ROOT / path).is_file():
        return False
    body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    for part in parts:
        for node in body:
            if part in _names(node):
                body = node.body if isinstance(node, ast.ClassDef) else []
                break
        else:
            return False
    return True


def _names(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):  # TestMachine = Machine.TestCase
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


TABLE = rows((ROOT / "docs" / "conformance.md").read_text(encoding="utf-8"))


def test_each_clause_has_one_row_in_order() -> None:
    assert [row.id for row in TABLE] == CLAUSES


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.id)
def test_what_a_row_names_exists(row: Row) -> None:
    assert problems(row) == []


HERE = Path(__file__).relative_to(ROOT).as_posix()


@pytest.mark.parametrize(
    ("cells", "problem"),
    [
        (f"done | `episub_router/nothing.py` | `{HERE}`", "nothing.py does not exist"),
        (f"done | `episub_router/__init__.py` | `{HERE}::test_nothing`", "does not exist"),
        (f"done | | `{HERE}`", "no module is named"),
        ("done | `episub_router/__init__.py` | ", "no test is named"),
        ("nearly | | ", "neither"),
        ("not yet:  | | ", "neither"),
    ],
)
def test_a_false_row_is_found(cells: str, problem: str) -> None:
    [row] = rows(f"| E01 | a clause | {cells} | |")
    [found] = problems(row)
    assert found.startswith("E01: ")
    assert problem in found


def test_a_true_row_passes() -> None:
    good = f"`{HERE}::Row`, `{HERE}::test_a_true_row_passes`, `{HERE}::TABLE`"
    [row] = rows(f"| E01 | a clause | done | `episub_router/__init__.py` | {good} | |")
    assert problems(row) == []
