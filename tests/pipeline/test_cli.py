"""What the commands print."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from episub_router.cli import pipeline


class Rows(list[Any]):
    """A table of which everything is asked in vain."""

    def where(self, condition: str) -> Rows:
        return self

    def orderBy(self, *keys: str) -> Rows:
        return self

    def collect(self) -> Rows:
        return self


def test_names_in_traces_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    row = SimpleNamespace(
        run="[/run]", topic="[b]:smile:", messages=1, reliability=1.0, latency_p50=None,
        latency_p99=None, rmr=0.0, ldh=1.0, mean_hops=None,
    )  # fmt: skip
    lake: Any = SimpleNamespace(read=lambda *given: Rows([row]))
    pipeline._print_verdict(lake, None)
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.split()[:2] == ["[/run]", "[b]:smile:"]
