"""Commands and files that documents name, also in sentences and blocks that aren't run, exist."""

from __future__ import annotations

import json
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from episub_router.cli.main import main
from tests.docs.snippets import ROOT, commands, documents, snippets
from tests.docs.test_snippets import make_targets

PAGES = [*documents(), *(ROOT / f"{name}.md" for name in ("CHANGELOG", "SECURITY"))]
FOLDERS = ("", "episub_router", "episub_router/protocol")
"""Where a path that a document names may begin."""

OTHERS = {"pb/trace.proto", "gossipsub-interop/test-specs/implementation.md"}
"""Files of other projects."""

SHELL = ("sh", "text", "")
_STARTED = re.compile(r"^ExecStart=\S+/(.+)$", re.MULTILINE)
"""What a unit of systemd runs."""
_ENTRY = re.compile(r"^ENTRYPOINT (\[.+\])$", re.MULTILINE)
"""What a container runs."""
_INLINE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_PATH = re.compile(r"(?:[\w.-]+/)+[\w-]+\.(?:py|toml|json|proto|md|sh|yml)")


def mentioned(page: Path) -> set[str]:
    """Code in sentences, and the commands of blocks."""
    sentences = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    inline = {" ".join(code.split()) for code in _INLINE.findall(sentences)}
    lines = [
        *(line for part in snippets(page) if part.language in SHELL for line in commands(part)),
        *(command for part in snippets(page) for command in _STARTED.findall(part.text)),
        *(
            " ".join(json.loads(words))
            for part in snippets(page)
            for words in _ENTRY.findall(part.text)
        ),
    ]
    return inline | {" ".join(line.split()) for line in lines}


EVERYWHERE = sorted({code for page in PAGES for code in mentioned(page)})
PATHS = {code.partition("::")[0] for code in EVERYWHERE}


def options(words: list[str]) -> list[str]:
    return [word.partition("=")[0] for word in words if re.fullmatch(r"--[a-z][\w-]*(=.*)?", word)]


@pytest.mark.parametrize("code", [code for code in EVERYWHERE if code.startswith("episub ")])
def test_commands_and_their_options(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = shlex.split(code.removeprefix("episub "), comments=True)
    named = [word for word in words if re.fullmatch("[a-z]+", word)]
    known = "--version --help"
    for depth in (1, 2):
        with pytest.raises(SystemExit) as ended:
            main([*named[:depth], "--help"])
        assert ended.value.code == 0
        known += capsys.readouterr().out
    assert all(option in known for option in options(words))


@pytest.mark.parametrize("code", [code for code in EVERYWHERE if "python -m " in code])
def test_programs_of_the_checkout(code: str) -> None:
    module, *words = shlex.split(code.partition("python -m ")[2], comments=True)
    found = find_spec(module)
    assert found is not None
    assert found.origin is not None
    path = Path(found.origin)
    if path.name == "__init__.py":
        path = path.with_name("__main__.py")
    if module.startswith(("tests.", "interop.")):
        source = path.read_text(encoding="utf-8")
        assert '__name__ == "__main__"' in source
        assert all(f'"{option}"' in source for option in options(words))


@pytest.mark.parametrize("code", [code for code in EVERYWHERE if code.startswith("make ")])
def test_targets_of_make(code: str) -> None:
    words = [word for word in shlex.split(code)[1:] if "=" not in word]
    assert set(words) <= make_targets()


@pytest.mark.parametrize("path", sorted(set(filter(_PATH.fullmatch, PATHS)) - OTHERS))
def test_files(path: str) -> None:
    assert any((ROOT / folder / path).exists() for folder in FOLDERS)


def test_mentions_are_found(tmp_path: Path) -> None:
    page = tmp_path / "a.md"
    page.write_text("Type `make\nx`.\n```sh\n# a comment\nepisub y \\\n  --z\n```\n")
    assert mentioned(page) == {"make x", "episub y --z"}
