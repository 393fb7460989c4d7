"""Exit statuses and messages of the command as a whole."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import DEVNULL, PIPE
from typing import Any

import pytest
import trio
import trio.testing

from episub_router.cli import report
from episub_router.cli.arguments import CommandError
from episub_router.cli.demo import command as demo
from episub_router.cli.farewell import run_until_interrupted
from episub_router.cli.main import main
from tests import children


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["demo", "--help"], ["node", "--help"], ["chat", "--help"], ["store", "--help"]],
)
def test_help_is_no_error(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    assert exit.value.code == 0
    assert "usage: episub" in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit:
        main(["--version"])
    assert exit.value.code == 0
    assert capsys.readouterr().out.startswith("episub ")


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], "COMMAND"),
        (["dance"], "dance"),
        (["demo", "--hosts", "1"], "--hosts: must be a whole number from 2 to 500"),
        (["demo", "--hosts", "many"], "--hosts: must be a whole number"),
        (["demo", "--messages", "0"], "--messages: must be a whole number from 1"),
        (["demo", "--size", "7"], "--size: must be a whole number from 8"),
        (["demo", "--sources", "0"], "--sources: must be a whole number from 1"),
        (["demo", "--hosts", "3", "--sources", "4"], "--sources: must be at most --hosts (3)"),
        (["demo", "--kill", "1"], "--kill: must be at least 0 and less than 1"),
        (["demo", "--kill", "-0.1"], "--kill: must be at least 0"),
        (["demo", "--kill", "nan"], "--kill: must be at least 0"),
        (["demo", "--hosts", "4", "--kill", "0.9"], "at most 2 can crash"),
        (["demo", "--hosts", "4", "--sources", "3", "--kill", "0.5"], "at most 1 can crash"),
        (["demo", "--patience", "0"], "--patience: must be more than 0"),
        (["node"], "--topic"),
        (["node", "--topic", "t", "--bootstrap", "/ip4/127.0.0.1/tcp/1"], "/p2p/<peer id>"),
        (["node", "--topic", "t", "--listen", "here"], "--listen: must be like /ip4/127.0.0.1"),
        (["top", "--topic", "t", "--listen", "/p2p-circuit"], "`episub node` alone listens there"),
        (["node", "--topic", "t", "--listen", "/ip4/127.0.0.1/udp/1/quic-v1"], "--listen"),
        (["node", "--topic", ""], "--topic: a topic must take 1 to 1024 bytes of UTF-8, not 0"),
        (["top", "--topic", "t" * 2000], "--topic: a topic must take 1 to 1024 bytes"),
        (["store", "t", "", "--db", "x"], "topic: a topic must take 1 to 1024 bytes"),
        (["chat", "--room", "\udcff"], "--room: 'utf-8' codec can't encode"),
        (["store", "t", "--db", "x", "--max-age", "-1"], "--max-age: must be more than 0 days"),
        (["store", "t", "--db", "x", "--max-size", "0"], "--max-size: must be a whole number"),
        (["store", "t", "--db", "x", "--max-messages", "1e3"], "--max-messages: must be a whole"),
    ],
)
def test_wrong_arguments_are_named_in_one_line(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    assert exit.value.code == 2
    output = capsys.readouterr()
    assert not output.out
    assert output.err.count("\n") == 1
    assert named in output.err


def parser_of_a_command_that_raises(error: BaseException) -> Callable[[Any], None]:
    def fail(arguments: object) -> int:
        raise error

    def add_parser(commands: Any) -> None:
        commands.add_parser("demo").set_defaults(run=fail)

    return add_parser


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (KeyboardInterrupt(), 130),
        (BaseExceptionGroup("nursery", [KeyboardInterrupt(), OSError()]), 130),
        (CommandError("no such thing"), 1),
        (ExceptionGroup("nursery", [ExceptionGroup("nursery", [CommandError("no")])]), 1),
    ],
)
def test_how_a_run_ends_shows_in_the_status(
    error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "add_parser", parser_of_a_command_that_raises(error))
    assert main(["demo"]) == status


def test_an_interrupt_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "add_parser", parser_of_a_command_that_raises(KeyboardInterrupt()))
    main(["demo"])
    assert capsys.readouterr().err == "episub: interrupted\n"


def test_the_commands_load_no_libp2p_before_they_run() -> None:
    """`--help`, `--version` and wrong arguments needn't wait for it."""
    code = (
        "import sys, episub_router.cli.main; "
        "print([name for name in ('libp2p', 'trio', 'multiaddr', 'numpy') if name in sys.modules])"
    )
    ran = children.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "arguments",
    [["node", "--topic", "t", "--json"], ["top", "--topic", "t"], ["trace", "collect", "there"]],
)
def test_a_reader_that_goes_away_ends_the_command_in_silence(
    arguments: list[str], tmp_path: Path
) -> None:
    """As `| head` does."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "episub_router", *arguments]
    with open(writing, "wb") as output:
        ran = children.run(command, cwd=tmp_path, stdin=DEVNULL, stdout=output, stderr=PIPE)
    assert (ran.returncode, ran.stderr) == (1, b"")


def test_a_bug_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    bug = LookupError("as a bug would")
    monkeypatch.setattr(demo, "add_parser", parser_of_a_command_that_raises(bug))
    with pytest.raises(LookupError):
        main(["demo"])


@pytest.mark.parametrize(
    ("number", "ends"), [(signal.SIGINT, KeyboardInterrupt()), (signal.SIGTERM, SystemExit(143))]
)
def test_a_signal_comes_where_the_command_waits(
    number: signal.Signals, ends: BaseException
) -> None:
    """And not amid a step, which may be py-libp2p's."""
    steps: list[str] = []

    async def command() -> None:
        signal.raise_signal(number)
        steps.append("ended its step")
        await trio.sleep_forever()

    with pytest.raises(type(ends)) as raised:
        run_until_interrupted(command)
    assert raised.value.args == ends.args
    assert steps == ["ended its step"]


@pytest.mark.parametrize("installed", [[], ["jinja2", "vl_convert"], ["pyspark"]])
def test_a_report_names_the_extra_that_has_all_that_is_missing(
    installed: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "find_spec", lambda name: name in installed or None)
    assert main(["report", "run", "--out", "page.html"]) == 1
    assert "pip install 'episub-router[report]'" in capsys.readouterr().err


def test_a_second_ctrl_c_interrupts_at_once() -> None:
    async def command() -> None:
        heeding = signal.getsignal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        with trio.CancelScope(shield=True):
            while signal.getsignal(signal.SIGINT) is heeding:
                await trio.lowlevel.checkpoint()
            signal.raise_signal(signal.SIGINT)
            await trio.sleep_forever()

    with pytest.raises(BaseExceptionGroup) as raised:
        run_until_interrupted(command)
    assert raised.group_contains(KeyboardInterrupt)
