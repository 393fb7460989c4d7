"""What the documents quote is what was measured."""

from __future__ import annotations

import re

import pytest

from tests.docs.figures import pages
from tests.docs.marked import fill
from tests.docs.snippets import ROOT, documents
from tests.results.tables import OLDER, TABLES, figure


def test_each_quoted_figure_is_its_results() -> None:
    stale = [path.relative_to(ROOT).as_posix() for path in pages(OLDER)]
    assert not stale, f"{stale}: run python -m tests.docs.figures --write"


def test_each_table_is_on_a_page() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in documents())
    assert sorted(re.findall("<!-- result: (.+) -->", text)) == sorted(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_at_most_six_columns(name: str) -> None:
    assert len(TABLES[name].columns) <= 5


def test_places_are_filled_and_the_rest_is_left() -> None:
    block = "<!-- result: t -->\nold\n<!-- end -->\n<!-- else: t -->\n"
    page = f"a (1<!--= x / y / z -->).\n{block}"
    filled = fill(page, {"result": str.upper}, {"x / y / z": "2.5x"}.__getitem__)
    assert filled == (
        "a (2.5x<!--= x / y / z -->).\n<!-- result: t -->\nT\n\n<!-- end -->\n<!-- else: t -->\n"
    )
    assert fill(filled, {"result": str.upper}, {"x / y / z": "2.5x"}.__getitem__) == filled


@pytest.mark.parametrize("page", ["<!-- result: t -->\nno end\n", "1\n<!--= a / b / c --> ms"])
def test_a_place_that_is_not_whole_is_an_error(page: str) -> None:
    with pytest.raises(ValueError, match=r"not closed|no figure"):
        fill(page, {"result": str.upper}, str)


@pytest.mark.parametrize("name", TABLES)
def test_a_quoted_figure_is_one_word(name: str) -> None:
    """Or it could not be found before its comment."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in documents())
    for path in re.findall(rf"<!--= ({re.escape(name)} / .+?) -->", text):
        assert re.fullmatch(r"[^\s(|]+", figure(path)), path


def test_a_figure_that_was_not_measured_is_an_error() -> None:
    with pytest.raises(KeyError):
        figure("trees / one source / p98_uniform")
