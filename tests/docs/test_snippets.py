"""What the documents tell people to type works."""

from __future__ import annotations

import ast
import importlib
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.docs.snippets import ROOT, Snippet, all_snippets, commands, snippets
from tests.docs.test_conformance import is_there

SMALL = {
    "demo": ["--hosts", "4", "--messages", "5"],
}
"""Arguments added to each `episub` command, so that it ends soon."""
ELSEWHERE = {
    "pipeline.md": "tests/pipeline/test_cookbook.py::"
    "test_the_cookbook_runs_and_the_report_has_the_demo_s_numbers",
    "simulator.md": "tests/sim/test_cli.py::test_the_cookbook_runs",
    "trace.md": "tests/trace/test_cli.py::test_the_cookbook_runs",
}
"""Documents whose commands build on one another, and the test that runs them in order."""

PYTHON = all_snippets("python")
COMMANDS = [
    pytest.param(line, id=f"{snippet}: {line}")
    for snippet in all_snippets("sh")
    if snippet.no_run is None and snippet.path.name not in ELSEWHERE
    for line in commands(snippet)
]


@pytest.mark.parametrize("snippet", PYTHON, ids=str)
def test_python_snippet(snippet: Snippet, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    # A notebook's cell, which nothing here runs, awaits by itself.
    flags = 0 if snippet.no_run is None else ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    code = compile(snippet.text, str(snippet), "exec", flags)
    if snippet.no_run is None:
        monkeypatch.chdir(tmp_path)
        exec(code, {"__name__": "__main__"})


@pytest.mark.parametrize("line", COMMANDS)
def test_shell_command(line: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    check_command(line, lambda argv: importlib.import_module("episub_router.cli.main").main(argv))


def check_command(line: str, episub: Callable[[Sequence[str]], int | None]) -> None:
    """Run an `episub` command at small size, or see that a make target exists."""
    program, *arguments = shlex.split(line)
    if program == "episub":
        subcommand = arguments[0]
        assert subcommand in SMALL, f"say in SMALL how to run `episub {subcommand}` briefly"
        assert not episub([*arguments, *SMALL[subcommand]])
    elif program == "make":
        targets = [word for word in arguments if "=" not in word]
        assert targets
        assert set(targets) <= make_targets()
    else:
        pytest.fail(f"no test runs this command: {line}")


def make_targets() -> set[str]:
    """The phony targets of the Makefile."""
    [line] = re.findall(r"^\.PHONY: (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    return set(line.split())


@pytest.mark.parametrize("test", ELSEWHERE.values())
def test_what_runs_elsewhere_runs(test: str) -> None:
    assert is_there(test)


def test_the_readme_has_the_two_commands() -> None:
    lines = [
        line for s in snippets(ROOT / "README.md") if s.language == "sh" for line in commands(s)
    ]
    assert [line for line in lines if line.startswith("make ")] == ["make demo", "make test"]


TEXT = """\
<!-- no-run: it never ends -->

```python
while True: pass
```
Between.
```sh
# a comment
episub demo --hosts 9 \\
  --seed 1
make demo
```
"""


def test_snippets_are_found_with_their_marks(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text(TEXT)
    python, shell = snippets(document)
    assert (python.language, python.line, python.no_run) == ("python", 4, "it never ends")
    assert python.text == "while True: pass\n"
    assert shell.no_run is None
    assert [" ".join(line.split()) for line in commands(shell)] == [
        "episub demo --hosts 9 --seed 1",
        "make demo",
    ]


def test_an_open_fence_is_an_error(tmp_path: Path) -> None:
    document = tmp_path / "a.md"
    document.write_text("```sh\nmake test\n")
    with pytest.raises(ValueError, match=r"a\.md:1"):
        list(snippets(document))


def test_episub_commands_run_at_small_size() -> None:
    calls: list[Sequence[str]] = []
    check_command("episub demo --seed 1", calls.append)
    assert calls == [["demo", "--seed", "1", *SMALL["demo"]]]


@pytest.mark.parametrize("line", ["make nothing", "pip install x", "episub unheard-of"])
def test_commands_that_nothing_stands_behind_fail(line: str) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check_command(line, lambda _: 0)


def test_an_episub_command_that_fails_is_seen() -> None:
    with pytest.raises(AssertionError):
        check_command("episub demo", lambda _: 1)
