"""The npm package in a Node.js process, behind its pipes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import children

DIRECTORY = Path(__file__).parents[2] / "interop" / "js" / "sds"


class JsPeer:
    """One channel of @waku/sds. `events` collects what it told: (name, detail)."""

    def __init__(self) -> None:
        self._child = children.child(
            ["node", "peer.mjs"],
            cwd=DIRECTORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"NODE_NO_WARNINGS": "1"},
        )
        self.process = self._child.__enter__()
        self.events: list[tuple[str, Any]] = []

    def __call__(self, op: str, **arguments: Any) -> dict[str, Any]:
        self.process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the Node.js process ended at {op!r}"
        answer = json.loads(line)
        self.events += [(name, detail) for name, detail in answer.pop("events")]
        return dict(answer)

    def told(self, name: str) -> list[Any]:
        return [detail for event, detail in self.events if event == name]

    def close(self) -> None:
        self._child.__exit__(None, None, None)


def require() -> None:
    """Skip with the reason where the npm package can't run; in CI that is a failure."""
    problem = None
    if shutil.which("node") is None:
        problem = "Node.js is not installed"
    elif not (DIRECTORY / "node_modules" / "@waku" / "sds").is_dir():
        problem = "@waku/sds is not installed: run `npm ci` in interop/js/sds"
    if problem is not None:
        if os.environ.get("CI"):
            pytest.fail(problem)
        pytest.skip(problem)


def peers(count: int) -> Iterator[list[JsPeer]]:
    require()
    running = [JsPeer() for _ in range(count)]
    try:
        yield running
    finally:
        for peer in running:
            peer.close()
