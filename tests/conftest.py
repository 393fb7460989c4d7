"""How tests are divided among the workers of pytest-xdist, and what a busy machine changes."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# By default an example fails after 200 ms, which says more about the machine than about the code.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a costly fixture run in one worker: `--dist loadgroup` reads the marks.

    The tests on Spark share a session; other files name their group themselves.
    """
    for item in items:
        if item.get_closest_marker("spark") is not None:
            item.add_marker(pytest.mark.xdist_group("spark"))
