"""Pages have a size that is read, and their links lead somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.marked import written
from tests.docs.snippets import ROOT, documents

PAGES = [*documents(), *(ROOT / f"{name}.md" for name in ("CHANGELOG", "CONTRIBUTING", "SECURITY"))]
REFERENCE = {"wire.md", "episub-r2.md"}
"""Pages that are looked up, not read."""
LONGEST = 300
WIDEST = 6

_LINK = re.compile(r"\]\((?!https?://)([^)\s#]*)(?:#([^)\s]+))?\)")
_FENCED = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as the site makes them."""
    text = _FENCED.sub("", path.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return set(map(slug, titles))


def slug(title: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


def broken(page: Path) -> list[str]:
    """The links of a page to files that aren't there, or to headings that they haven't."""
    found = []
    for target, anchor in _LINK.findall(_FENCED.sub("", page.read_text(encoding="utf-8"))):
        path = page.parent / target if target else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            found.append(f"{target}#{anchor}")
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_what_is_there(page: Path) -> None:
    assert not broken(page)


def test_a_link_that_leads_nowhere_is_found(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("# A b, c\n[1](#a-b-c) [2](a.md#no) [3](b.md) [4](https://example.org/b)\n")
    assert broken(page) == ["a.md#no", "b.md#"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_have_six_columns_at_most(page: Path) -> None:
    rules = re.findall(r"^\|[-:|\s]+\|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert all(rule.count("|") - 1 <= WIDEST for rule in rules)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_three_hundred_lines_at_most(page: Path) -> None:
    text = written(page.read_text(encoding="utf-8"))
    assert page.name in REFERENCE or len(text.splitlines()) <= LONGEST


GENERATED = {"api.md", "interop-suite.md"}
"""Made of docstrings, and of tests/upstream/suite.toml."""
MOST = 150_000
"""Characters that somebody wrote for readers, in all pages that are read."""


def test_the_documents_have_a_budget() -> None:
    read = [page for page in documents() if page.name not in REFERENCE | GENERATED]
    sizes = {page: len(written(page.read_text(encoding="utf-8"))) for page in read}
    assert sum(sizes.values()) <= MOST, sorted(sizes.items(), key=lambda size: -size[1])


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 150


def test_a_release_has_forty_lines_in_the_changelog() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    releases = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    assert len(releases) >= 4
    for release in releases:
        assert len([line for line in release.splitlines() if line.strip()]) <= 40, release[:20]


_QUESTION = re.compile(r"^(\d+)\. .*\? \[.+\]\(([a-z-]+\.md)(?:#([^)]+))?\)$", re.MULTILINE)


def section(page: Path, anchor: str) -> list[str]:
    """The lines below a heading until the next one as high; without an anchor those at the top."""
    found: list[str] = []
    level, fenced = 0, False
    for line in written(page.read_text(encoding="utf-8")).splitlines():
        fenced ^= line.startswith("```")
        title = None if fenced else re.match("(#+) (.+)", line)
        if title and level and (len(title[1]) <= level or not anchor):
            break
        if title and not level and (not anchor or slug(title[2]) == anchor):
            level = len(title[1])
        elif level:
            found.append(line)
    return found


def test_newcomers_have_twenty_questions_whose_answers_fit_a_screen() -> None:
    text = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8")
    assert "(docs/contributing.md#twenty-questions)" in (ROOT / "README.md").read_text("utf-8")
    questions = _QUESTION.findall(text)
    assert [int(number) for number, _, _ in questions] == list(range(1, 21))
    sizes = {number: len(section(ROOT / "docs" / page, a)) for number, page, a in questions}
    assert {number: size for number, size in sizes.items() if not 2 <= size <= 60} == {}
