"""No process outlives the test that started it: `tests.children`."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests import children

ROOT = Path(__file__).parents[2]

GRANDCHILD = """
import subprocess, sys
print("started", flush=True)
subprocess.run([sys.executable, "-c", "import time; time.sleep(3600)"])
"""

TEST = """
import sys
from tests import children

CHILD = '''
import sys, time
with open({fifo!r}, "w") as fifo:
    print("started", file=fifo, flush=True)
    time.sleep(3600)
'''

async def test_it():
    process = await children.open_child([sys.executable, "-c", CHILD])
    with open({go!r}) as go:
        go.read()
    assert {outcome}
    await children.end(process)
"""


def test_what_a_child_has_started_ends_with_it() -> None:
    with children.child(
        [sys.executable, "-c", GRANDCHILD], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        children.kill(process)
        # Both hold the other end: this returns when both are gone.
        assert process.stdout.read() == ""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fails", "is killed"])
def test_no_child_outlives_pytest(how: str, tmp_path: Path) -> None:
    fifo, go = tmp_path / "fifo", tmp_path / "go"
    os.mkfifo(fifo)
    os.mkfifo(go)
    outcome = how != "fails"
    (tmp_path / "test_it.py").write_text(
        TEST.format(fifo=str(fifo), go=str(go), outcome=outcome), encoding="utf-8"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c"]
    command += [str(ROOT / "pyproject.toml"), "--rootdir", str(ROOT), str(tmp_path / "test_it.py")]
    with children.child(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as pytest_process:
        with fifo.open() as written:
            assert written.readline() == "started\n"
            # Opened on the other side when `open_child` has returned.
            with go.open("w"):
                if how == "is killed":
                    pytest_process.send_signal(signal.SIGKILL)
                    # The child has the other end open until it ends.
                    assert written.read() == ""
                    return
            assert written.read() == ""
        output, _ = pytest_process.communicate()
    assert "1 failed" in output


def test_every_child_of_a_test_is_started_there() -> None:
    """`subprocess.Popen` and the like leave processes behind when a test fails."""
    starters = {"Popen", "open_process"}
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in ("tests", "interop/harness")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path != ROOT / "tests" / "children.py" and "benchmarks" not in path.parts
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in starters
    ]
    assert not found
