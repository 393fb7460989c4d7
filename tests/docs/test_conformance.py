"""Each clause of the specifications is there, and so are the modules and tests that it names."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.docs.conformance import CLAUSES, Clause, clauses
from tests.docs.snippets import ROOT


def problems(clause: Clause) -> list[str]:
    """What is wrong with a clause."""
    there = [(ROOT / "episub_router" / path).is_file() for path in clause.modules]
    tests = [is_there(f"tests/{test}") for test in clause.tests]
    named = [*zip(clause.modules, there, strict=True), *zip(clause.tests, tests, strict=True)]
    wrong = [f"{path} does not exist" for path, is_here in named if not is_here]
    wrong += [] if clause.modules else ["no module is named"]
    return wrong + ([] if clause.tests else ["no test is named"])


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


def test_each_clause_is_there_in_order() -> None:
    assert [*clauses()] == [name for names in CLAUSES.values() for name in names]


@pytest.mark.parametrize("name", [name for names in CLAUSES.values() for name in names])
def test_what_a_clause_names_exists(name: str) -> None:
    assert problems(clauses()[name]) == []


HERE = Path(__file__).relative_to(ROOT / "tests").as_posix()


@pytest.mark.parametrize(
    ("modules", "tests", "found"),
    [
        (["nothing.py"], [HERE], ["nothing.py does not exist"]),
        (["__init__.py"], [f"{HERE}::test_no"], [f"{HERE}::test_no does not exist"]),
        ([], [HERE], ["no module is named"]),
        (["__init__.py"], [], ["no test is named"]),
        (["__init__.py"], [f"{HERE}::problems", f"{HERE}::HERE", HERE], []),
    ],
)
def test_what_is_wrong_is_found(modules: list[str], tests: list[str], found: list[str]) -> None:
    assert problems(Clause(clause="a clause", modules=modules, tests=tests)) == found
