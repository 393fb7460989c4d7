"""The Go implementation: formatted, vetted, in small files, and its own tests pass."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from interop.harness.kinds import INTEROP

GO = INTEROP / "go"
MOST_LINES = 400
AS_BUILT = "-trimpath"
"""As in interop/build.sh: without it, everything that the peers import is compiled once more."""


def go(*command: str) -> str:
    done = subprocess.run(command, cwd=GO, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def written() -> list[Path]:
    return [path for path in sorted(GO.rglob("*.go")) if not path.name.endswith(".pb.go")]


@pytest.mark.peers("episub-go")
def test_the_sources_are_formatted_and_vetted() -> None:
    assert not go("gofmt", "-l", *map(str, written()))
    go("go", "vet", AS_BUILT, "./...")


@pytest.mark.peers("episub-go")
def test_its_own_tests_pass() -> None:
    go("go", "test", AS_BUILT, "-vet=off", "./...")


def test_files_are_small() -> None:
    assert not [path.name for path in written() if len(path.read_text().split("\n")) > MOST_LINES]
