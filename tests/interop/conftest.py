from __future__ import annotations

import os
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest

from interop.harness.kinds import KINDS
from interop.harness.lab import Lab, running_lab
from interop.harness.peer import Peer
from interop.harness.table import Result, render, write

_RESULTS = pytest.StashKey[list[Result]]()
_VERSIONS = pytest.StashKey[dict[str, dict[str, str]]]()
_TAIL = 12
"""Lines of each log that a failure shows."""


@pytest.fixture
async def lab(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Lab]:
    """Peers that end with the test; what they print is kept as pytest keeps `tmp_path`."""
    async with running_lab(tmp_path) as found:
        yield found
        await check_scores(found.peers)
        for peer in found.peers:
            request.config.stash[_VERSIONS][peer.name.rstrip("0123456789")] = peer.versions


async def check_scores(peers: list[Peer]) -> None:
    """At no time did a go peer hold anything against an Episub node, and it doesn't now."""
    by_id = {peer.id: peer for peer in peers}
    for peer in peers:
        if peer.kind == "go" and peer.process.returncode is None and not peer.ended:
            await peer.send("scores")
            await peer.event("scores")
        for event in peer.reported("score"):
            other = by_id.get(event["peer"])
            if other is not None and other.kind == "episub":
                assert event["score"] >= 0, f"{peer} gave {other} {event}"
                assert event["invalid"] == 0, f"{peer} gave {other} {event}"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--interop-table", action="store_true", help="write docs/interop.md's table")
    parser.addoption(
        "--without", metavar="KIND", help="leave out the tests that need this kind of peer"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_RESULTS] = []
    config.stash[_VERSIONS] = {}


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the table of a whole run."""
    if session.config.getoption("--interop-table"):
        results = session.config.stash[_RESULTS]
        versions = session.config.stash[_VERSIONS]
        write(render(results, versions))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests whose peers can't run here; in CI they run, and fail."""
    left_out = [item for item in items if config.getoption("--without") in peers_of(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    if os.environ.get("CI"):
        return
    for item in items:
        for kind in peers_of(item):
            problem = KINDS[kind].problem()
            if problem is not None:
                item.add_marker(pytest.mark.skip(reason=problem))


def peers_of(item: pytest.Item) -> list[str]:
    """The kinds of peers that a test needs."""
    return [kind for mark in item.iter_markers("peers") for kind in mark.args]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note the outcome, and show with a failure what the peers printed last."""
    report = yield
    if report.when == "call" or report.skipped:
        assert isinstance(item, pytest.Function)
        cell = item.callspec.id if hasattr(item, "callspec") else ""
        function = item.originalname
        item.config.stash[_RESULTS].append(Result(item.path.stem, function, cell, report.outcome))
    logs = getattr(item, "funcargs", {}).get("tmp_path")
    if report.failed and logs is not None:
        for log in sorted(logs.glob("*.*")):
            lines = log.read_text(errors="replace").splitlines()[-_TAIL:]
            report.sections.append((f"{log}", "\n".join(line[:300] for line in lines)))
    return report
