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
def test_each_page_fits_a_desk_and_a_telephone(site: Path) -> None:
    """Wide tables and code scroll by themselves, and no picture is missing."""
    measured = """() => [document.documentElement.scrollWidth,
        [...document.images].filter(image => !image.naturalWidth).length]"""
    pages, widths = sorted(site.rglob("*.html")), (1280, 390)
    assert len(pages) > 30
    with chromium() as browser:
        page = opened_page(browser, widths[0])
        found = {}
        for path in pages:
            page.goto(path.as_uri())
            for width in widths:
                page.set_viewport_size({"width": width, "height": 844})
                found[path.name, width] = page.evaluate(measured)
    assert {at: told for at, told in found.items() if told != [at[1], 0]} == {}
