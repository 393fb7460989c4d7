"""Real nodes in Shadow, where there is one."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from interop.shadow.kinds import KINDS
from interop.shadow.run import find
from tests import children

ROOT = Path(__file__).parents[2]
SIX = ROOT / "interop" / "shadow" / "scenarios" / "six.toml"


def shadow(out: Path, *arguments: str, **environment: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "interop.shadow", str(SIX), "--out", str(out), *arguments]
    done = children.run(
        command,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        **({"env": environment} if environment else {}),
    )
    return done.returncode, done.stderr


@pytest.mark.slow
def test_without_shadow_a_line_says_what_to_do(tmp_path: Path) -> None:
    status, said = shadow(tmp_path / "out", PATH=str(tmp_path), PYTHONPATH=str(ROOT))
    assert status == 77
    assert len(said.splitlines()) == 1
    assert "SHADOW" in said
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
@pytest.mark.hosts
@pytest.mark.skipif(find() is None, reason="there is no Shadow")
@pytest.mark.parametrize("kinds", ["episub,py", "episub-go,go"])
def test_the_same_seed_gives_the_same_result(kinds: str, tmp_path: Path) -> None:
    for reason in filter(None, (KINDS[kind].problem() for kind in kinds.split(","))):
        pytest.skip(reason)
    few = [f"--kinds={kinds}", "--set=traffic.messages=12", "--set=traffic.start=10"]
    # In a new checkout nothing is compiled yet.
    shutil.rmtree(ROOT / "interop" / "shadow" / "shim" / "__pycache__", ignore_errors=True)
    outcomes = []
    for name in ("one", "two"):
        status, said = shadow(tmp_path / name, *few)
        assert status == 0, said
        outcomes.append(json.loads((tmp_path / name / "outcome.json").read_text()))
    assert len(outcomes[0]["receipts"]) >= 12 * 5
    assert outcomes[0] == outcomes[1]
