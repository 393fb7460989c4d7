"""A Chromium for tests of pages; without one they are skipped."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.hosts import PATIENCE


@contextmanager
def chromium() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    names = ("chromium", "chromium-browser", "google-chrome")
    program = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if program is None:
        pytest.skip("no Chromium here: install one, or name it in CHROMIUM")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(
            executable_path=program,
            args=["--no-sandbox", "--disable-gpu", "--disable-background-networking"],
        )
        yield opened
        opened.close()


def opened_page(browser: Any, width: int) -> Any:
    """A page so many pixels wide, which waits as long as tests do on a busy machine."""
    page = browser.new_page(viewport={"width": width, "height": 844})
    page.set_default_timeout(1000 * PATIENCE)
    return page
