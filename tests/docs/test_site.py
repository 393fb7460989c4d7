"""The documentation builds as a site without a warning, and fits a desk and a telephone."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.browsers import chromium, opened_page
from tests.docs.snippets import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site; building it raises Abort where there is a warning."""
    pytest.importorskip("mkdocstrings")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    logging.getLogger("mkdocs").setLevel(logging.WARNING)
    folder = tmp_path_factory.mktemp("site")
    build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(folder)))
    return folder


@pytest.mark.slow
def test_the_site_has_the_api_and_a_search(site: Path) -> None:
    reference = (site / "api.html").read_text()
    assert 'id="episub_router.EpisubRouter.joined"' in reference
    assert (site / "search" / "search_index.json").stat().st_size > 100_000


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 390])
def test_each_page_fits_the_window(site: Path, width: int) -> None:
    """Wide tables and code scroll by themselves, and no picture is missing."""
    measured = """() => [document.documentElement.scrollWidth,
        [...document.images].filter(image => !image.naturalWidth).length]"""
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    with chromium() as browser:
        page = opened_page(browser, width)
        found = {}
        for path in pages:
            page.goto(path.as_uri())
            found[path.name] = page.evaluate(measured)
    assert {name: told for name, told in found.items() if told != [width, 0]} == {}
