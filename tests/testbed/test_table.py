"""Runs side by side."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interop.testbed.report.table import main


def write(run: Path, kind: str, seed: int, **figures: object) -> str:
    run.mkdir()
    known = dict.fromkeys(("asked", "accepted", "deliveries", "missing", "missing_near"), 10)
    known |= dict.fromkeys(("repeats", "longest_wait", "calm_p50", "calm_p99", "cpu"), 1)
    result = {"kinds": [kind] * 2, "seed": seed, "figures": {**known, "violations": {}, **figures}}
    (run / "result.json").write_text(json.dumps(result))
    return str(run)


def test_a_row_for_each_run_after_one_for_all_of_its_kind(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [
        write(tmp_path / "b", "py", 1, violations={"reach": 2}, repeats=1234),
        write(tmp_path / "c", "episub", 2, calm_p50=30.0, longest_wait=4.0),
        write(tmp_path / "a", "episub", 1, calm_p50=10.0),
    ]
    assert main(runs) == 0
    _, _, *rows = capsys.readouterr().out.splitlines()
    assert rows == [
        "| episub | **2 runs** | 0 | 20 | 20 of 40 | 20 | 2 | 4.0 | 20 | 1 | 2 |",
        "| episub | 1 | 0 | 10 | 10 of 20 | 10 | 1 | 1.0 | 10 | 1 | 1 |",
        "| episub | 2 | 0 | 10 | 10 of 20 | 10 | 1 | 4.0 | 30 | 1 | 1 |",
        "| py | **1 runs** | 2 reach | 10 | 10 of 20 | 10 | 1,234 | 1.0 | 1 | 1 | 1 |",
        "| py | 1 | 2 reach | 10 | 10 of 20 | 10 | 1,234 | 1.0 | 1 | 1 | 1 |",
    ]
    assert main([*runs, "--json"]) == 0
    assert [row["seed"] for row in json.loads(capsys.readouterr().out)] == [1, 2, 1]


@pytest.mark.parametrize("text", [None, "{", "[]", '{"kinds": ["py"], "seed": 1}'])
def test_a_directory_without_a_result_is_named(
    text: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if text is not None:
        (tmp_path / "result.json").write_text(text)
    assert main([str(tmp_path)]) == 2
    assert str(tmp_path / "result.json") in capsys.readouterr().err
