"""How the tests are divided among the workers of pytest-xdist."""

from __future__ import annotations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a costly fixture run in one worker: `--dist loadgroup` reads the marks.

    The tests on Spark share a session; other files name their group themselves.
    """
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))
