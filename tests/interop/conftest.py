from __future__ import annotations

import os
from collections.abc import AsyncIterator, Generator
from pathlib import Path

import pytest

from interop.harness.kinds import KINDS
from interop.harness.lab import Lab, running_lab
from interop.harness.machine import machine
from interop.harness.peer import Peer
from interop.harness.table import Result, render, write

_RESULT, _VERSIONS = "interop result", "interop versions"
"""Properties of reports, which come to the process that writes the table."""
_TAIL = 12
"""Lines of each log that a failure shows."""


@pytest.fixture
async def lab(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> AsyncIterator[Lab]:
    """Peers that end with the test; what they print is kept as pytest keeps `tmp_path`. A test
    with the mark `quiet` has its peers while no other test of the run has any."""
    shared = tmp_path_factory.getbasetemp()
    if _is_worker(request.config):
        shared = shared.parent
    alone = request.node.get_closest_marker("quiet") is not None
    async with machine(shared, alone=alone), running_lab(tmp_path) as found:
        yield found
        await check_scores(found.peers)
        versions = {peer.kind: peer.versions for peer in found.peers}
        request.node.user_properties.append((_VERSIONS, versions))


def _is_worker(config: pytest.Config) -> bool:
    """Whether this is a process of pytest-xdist that runs tests for another one."""
    return hasattr(config, "workerinput")


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


class TableWriter:
    """Writes the table of a whole run from the reports of all its processes."""

    def __init__(self) -> None:
        self._results: list[Result] = []
        self._versions: dict[str, dict[str, str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == _RESULT and (report.when == "call" or report.skipped):
                self._results.append(Result(*value, report.outcome))
            elif name == _VERSIONS:
                self._versions |= value

    def pytest_sessionfinish(self) -> None:
        write(render(self._results, self._versions))


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--interop-table") and not _is_worker(config):
        config.pluginmanager.register(TableWriter())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip tests whose peers can't run here; in CI they run, and fail. In a whole run those that
    want the machine come first, so that nobody waits for it, and the longest after them."""
    if config.getoption("--interop-table"):
        marks = ("quiet", "slow")
        items.sort(key=lambda item: [item.get_closest_marker(name) is None for name in marks])
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
        report.user_properties.append((_RESULT, [item.path.stem, function, cell]))
    logs = getattr(item, "funcargs", {}).get("tmp_path")
    if report.failed and logs is not None:
        for log in sorted(logs.glob("*.*")):
            lines = log.read_text(errors="replace").splitlines()[-_TAIL:]
            report.sections.append((f"{log}", "\n".join(line[:300] for line in lines)))
    return report
