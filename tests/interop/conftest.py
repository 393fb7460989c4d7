from __future__ import annotations

import os
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest

from interop.harness.kinds import KINDS
from interop.harness.lab import Lab, running_lab

_TAIL = 12
"""Lines of each log that a failure shows."""


@pytest.fixture
async def lab(tmp_path: Path) -> AsyncIterator[Lab]:
    """Peers that end with the test; what they print is kept as pytest keeps `tmp_path`."""
    async with running_lab(tmp_path) as found:
        yield found


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip tests whose peers can't run here; in CI they run, and fail."""
    if os.environ.get("CI"):
        return
    for item in items:
        for mark in item.iter_markers("peers"):
            for kind in mark.args:
                problem = KINDS[kind].problem()
                if problem is not None:
                    item.add_marker(pytest.mark.skip(reason=problem))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show with a failure what the peers printed last."""
    report = yield
    logs = getattr(item, "funcargs", {}).get("tmp_path")
    if report.failed and logs is not None:
        for log in sorted(logs.glob("*.*")):
            lines = log.read_text(errors="replace").splitlines()[-_TAIL:]
            report.sections.append((f"{log}", "\n".join(line[:300] for line in lines)))
    return report
