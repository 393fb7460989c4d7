"""py-libp2p's own pubsub tests, with an EpisubRouter where they ask for a GossipSub host.

The tests are in the source distribution of the libp2p that is pinned in suite.toml, which also
says of each test whether it applies, and why not. They run in a process of their own.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import tomllib
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests import children

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
SUITE: dict[str, Any] = tomllib.loads((HERE / "suite.toml").read_text(encoding="utf-8"))
MODES = ("episub", "fallback")
PARTS = 3
"""Processes for the tests of one mode: they sleep for most of their time."""
PREFIX = "tests/core/pubsub/"
GROUPS: list[dict[str, Any]] = SUITE["group"]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "episub-router"

pytestmark = pytest.mark.hosts


def expected_in(mode: str) -> list[str]:
    """The node ids that have to pass in `mode`."""
    return [
        f"{PREFIX}{test}" for group in GROUPS if mode in group["modes"] for test in group["tests"]
    ]


def _python(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return children.run([sys.executable, *arguments], capture_output=True, text=True, **options)


@pytest.fixture(scope="module")
def suite() -> Path:
    """The unpacked tests. Skips without the network, except in CI."""
    unpacked = CACHE / f"libp2p-{SUITE['version']}"
    if not unpacked.is_dir():
        try:
            archive = _download()
        except subprocess.CalledProcessError as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"the source distribution of libp2p can't be had: {error.stderr[-300:]}")
        _unpack(archive, unpacked)
    return unpacked


def _download() -> Path:
    archive = CACHE / f"libp2p-{SUITE['version']}.tar.gz"
    if not archive.exists():
        requirement = CACHE / "requirement.txt"
        CACHE.mkdir(parents=True, exist_ok=True)
        requirement.write_text(f"libp2p=={SUITE['version']} --hash=sha256:{SUITE['sha256']}\n")
        _python(
            *("-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"),
            *("--no-binary=libp2p", f"--dest={CACHE}", f"--requirement={requirement}"),
        ).check_returncode()
    if hashlib.sha256(archive.read_bytes()).hexdigest() != SUITE["sha256"]:
        raise ValueError(f"{archive} is not the pinned one: delete it and try again")
    return archive


def _unpack(archive: Path, to: Path) -> None:
    """Only the tests: beside them, libp2p's sources would be taken for the installed package."""
    top = f"libp2p-{SUITE['version']}/"
    part = to.with_suffix(".part")
    with tarfile.open(archive) as tar:
        for member in tar:
            if member.name.startswith(f"{top}tests/"):
                member.name = member.name.removeprefix(top)
                tar.extract(member, part, filter="data")
    part.rename(to)


def _run(suite: Path, mode: str, part: int, into: Path) -> dict[str, dict[str, Any]]:
    """Run a part of what applies in `mode` with the plugin; what became of each test."""
    report, arguments = into / f"{mode}-{part}.json", into / f"{mode}-{part}.args"
    arguments.write_text("\n".join(expected_in(mode)[part::PARTS]))
    environment = {
        **os.environ,
        "UPSTREAM_MODE": mode,
        "UPSTREAM_REPORT": str(report),
        "PYTHONPATH": os.pathsep.join([str(HERE), str(ROOT)]),
    }
    options = ("-q", "--tb=short", "--timeout=240", "-p", "plugin", "-p", "no:cacheprovider")
    done = _python(
        *("-m", "pytest", *options, "-o", "trio_mode=true", f"@{arguments}"),
        cwd=suite,
        env=environment,
    )
    assert report.exists(), done.stdout[-3000:] + done.stderr[-3000:]
    results: dict[str, dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))
    return results


def test_every_test_is_in_one_group_with_a_reason(suite: Path) -> None:
    listed = Counter(test for group in GROUPS for test in group["tests"])
    assert not [test for test, times in listed.items() if times > 1]
    assert all(group["reason"] for group in GROUPS)
    done = _python(
        *("-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"),
        *("-o", "trio_mode=true", PREFIX),
        cwd=suite,
    )
    collected = [line for line in done.stdout.splitlines() if "::" in line]
    assert sorted(listed) == sorted(line.removeprefix(PREFIX) for line in collected)


@pytest.fixture(scope="module")
def results(suite: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What became of the tests that apply, by mode. All parts run side by side."""
    into = tmp_path_factory.mktemp("upstream")
    parts = [(mode, part) for mode in MODES for part in range(PARTS)]
    found: dict[str, dict[str, Any]] = {mode: {} for mode in MODES}
    with ThreadPoolExecutor(len(parts)) as pool:
        runs = pool.map(lambda run: _run(suite, *run, into), parts)
        for (mode, _), results in zip(parts, runs, strict=True):
            found[mode] |= results
    return found


# py-libp2p's tests sleep for fixed times in which all is to have happened.
@pytest.mark.quiet
@pytest.mark.timeout(900)  # for both modes, and the download
@pytest.mark.parametrize("mode", MODES)
def test_what_applies_passes(results: dict[str, dict[str, Any]], mode: str) -> None:
    expected = expected_in(mode)
    failed = {
        test: results[mode].get(test, {}).get("error", "didn't run")
        for test in expected
        if results[mode].get(test, {}).get("outcome") != "passed"
    }
    assert not failed, "\n\n".join(f"{test}\n{error}" for test, error in failed.items())
    assert all(results[mode][test]["substituted"] for test in expected)
