"""Tests that share something costly run in one worker."""

from __future__ import annotations

import re

from tests.conftest import APART, LAKES, LONGEST, TOGETHER, group, rank
from tests.docs.snippets import ROOT


def test_a_spark_session_is_in_one_worker_and_that_of_lakes_in_another() -> None:
    files = {path.name: path for path in (ROOT / "tests" / "pipeline").glob("test_*.py")}
    uses = re.compile(r"\b(spark: |episub: Callable|swept: )")
    users = {name for name, path in files.items() if uses.search(path.read_text())}
    assert users
    groups = {name: group(f"tests/pipeline/{name}::test_x") for name in users}
    assert set(groups.values()) == {"spark", "spark, lakes"}
    # Their one sweep is made once.
    swept = {name for name, path in files.items() if "swept: " in path.read_text()}
    assert {groups[name] for name in swept} == {"spark"}
    assert {*APART, *LAKES} <= files.keys()


def test_other_tests_are_divided_one_by_one() -> None:
    assert group("tests/wire/test_fuzz.py::test_a[1]") == "tests/wire/test_fuzz.py::test_a[1]"
    assert group("tests/upstream/test_suite.py::test_a") == "tests/upstream/"


def test_what_takes_longest_comes_first() -> None:
    assert rank("spark") == rank("spark, lakes") == 0
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
