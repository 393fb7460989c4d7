"""The documentation builds as a site without a warning."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from tests.docs.snippets import ROOT


@pytest.mark.slow
def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    pytest.importorskip("mkdocstrings")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    logging.getLogger("mkdocs").setLevel(logging.WARNING)
    # Raises Abort where there is a warning.
    build(load_config(str(ROOT / "mkdocs.yml"), strict=True, site_dir=str(tmp_path)))
    reference = (tmp_path / "api.html").read_text()
    assert 'id="episub_router.EpisubRouter.joined"' in reference
    assert (tmp_path / "search" / "search_index.json").stat().st_size > 100_000
