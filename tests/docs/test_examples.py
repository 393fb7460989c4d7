"""Each program in docs/examples/ runs, and prints what it should."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.children import child
from tests.docs.snippets import ROOT

EXAMPLES = ROOT / "docs" / "examples"
PATIENCE = 120.0

PRINTED = {
    "validators": "valid: 1\nvalid: 3\n",
    "bursts": "500 of 500 arrived\nwithout waiting some were refused: True\n"
    "a time-out says which neighbour is behind: True\n",
    "large_messages": "refused: at most 1,048,507 bytes, with the signature\n"
    "received: 2,097,152 bytes\n",
    "sds_chat": "bob receives: is anybody there?\nann receives: I am\n"
    "ann's message is acknowledged by 1 member\nboth have the same log: True\n",
    "dht_discovery": "neighbours of each: [1, 1]\n",
    "metrics": 'gossipsub_mesh_peers{topic="news"} 1.0\n'
    'gossipsub_message_published_total{topic="news"} 1.0\nneighbours left: 0\n',
}

pytestmark = pytest.mark.hosts


@pytest.mark.parametrize("name", PRINTED)
def test_example(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
    assert capsys.readouterr().out == PRINTED[name]


def test_two_processes() -> None:
    command = [sys.executable, str(EXAMPLES / "two_processes.py")]
    with child(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        address = first.stdout.readline().split()[-1]
        with child([*command, address], stdout=subprocess.PIPE, text=True) as second:
            assert "hello from the first" in second.communicate(timeout=PATIENCE)[0]
        assert first.stdout.readline() == "received: hello from the second\n"


def test_every_example_is_run_and_listed() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {*PRINTED, "two_processes", "pair"}
    text = Path(ROOT, "docs", "examples.md").read_text()
    assert all(f"(examples/{name}.py)" in text for name in names)
