"""Tests that share something costly run in one worker."""

from __future__ import annotations

import re

from tests.conftest import APART, LONGEST, TOGETHER, group, rank
from tests.docs.snippets import ROOT


def test_the_pipelines_sessions_are_in_one_worker() -> None:
    files = {path.name: path for path in (ROOT / "tests" / "pipeline").glob("test_*.py")}
    uses = re.compile(r"\b(spark: |jvm: |episub: Callable|swept: )")
    users = {name for name, path in files.items() if uses.search(path.read_text())}
    assert users
    assert {group(f"tests/pipeline/{name}::test_x") for name in users} == {"spark"}
    assert {*APART} <= files.keys()


def test_other_tests_are_divided_one_by_one() -> None:
    assert group("tests/wire/test_fuzz.py::test_a[1]") == "tests/wire/test_fuzz.py::test_a[1]"
    assert group("tests/upstream/test_suite.py::test_a") == "tests/upstream/"


def test_what_takes_longest_comes_first() -> None:
    assert rank("spark") == 0
    assert rank(group("tests/sim/test_queue.py::test_a")) < len(LONGEST)
    assert rank(group("tests/wire/test_fuzz.py::test_a")) == len(LONGEST)
    assert all((ROOT / path).exists() for path in (*LONGEST[1:], *TOGETHER))


def test_what_has_to_run_alone_is_run_alone() -> None:
    """`make upstream` and `make interop` look into these folders, and `make test` leaves it out."""
    marked = re.compile(r"^@pytest\.mark\.quiet$", re.MULTILINE)
    tests = ROOT / "tests"
    files = {
        path.relative_to(tests)
        for path in tests.rglob("test_*.py")
        if marked.search(path.read_text())
    }
    assert {path.parts[0] for path in files} == {"interop", "upstream"}
