"""`episub chat` and `episub store` as people use them: processes, pipes, kill -9."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from episub_router.cli.chat import line_of
from episub_router.cli.main import main
from episub_router.sds import ChannelMessage
from tests.children import trio_child

pytestmark = pytest.mark.hosts

PATIENCE = 120.0


class Terminal:
    """One process, with what it said so far."""

    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self.said = ""

    async def type(self, line: str) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(line.encode() + b"\n")

    async def wait_for(self, text: str) -> str:
        """The line that has `text`, once it has been said."""
        assert self.process.stdout is not None
        with trio.fail_after(PATIENCE):
            while True:
                for line in self.said.splitlines(keepends=True):
                    if text in line and line.endswith("\n"):
                        return line.strip()
                data = await self.process.stdout.receive_some()
                assert data, f"ended before saying {text!r}: {self.said}"
                self.said += data.decode()


@asynccontextmanager
async def terminal(command: str, *arguments: str) -> AsyncIterator[Terminal]:
    async with trio_child(
        [sys.executable, "-m", "episub_router", command, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    ) as process:
        yield Terminal(process)


async def address_of(node: Terminal) -> str:
    return (await node.wait_for("/p2p/")).split()[-1]


async def test_a_room_survives_kill_9(tmp_path: Path) -> None:
    ann = ["--name", "ann", "--room", "r"]
    bob = ["--name", "bob", "--room", "r", "--db", f"{tmp_path}/bob.db", "--key", f"{tmp_path}/bob"]
    async with terminal("chat", *ann) as first:
        bob += ["--bootstrap", await address_of(first)]
        async with terminal("chat", *bob) as second:
            await second.type("hello from bob")
            await first.wait_for("bob: hello from bob")
            await first.type("hello from ann")
            await second.wait_for("ann: hello from ann")
            second.process.send_signal(signal.SIGKILL)
            await second.process.wait()
        await first.type("bob, you missed this")
        async with terminal("chat", *bob) as second:
            await second.wait_for("ann: bob, you missed this")
            await second.type("/log")
            await second.wait_for("  ann: bob, you missed this")
            log = [line.strip() for line in second.said.splitlines() if line.startswith("  ")]
            assert log == [
                "bob: hello from bob",
                "ann: hello from ann",
                "ann: bob, you missed this",
            ]
            await second.type("/quit")
            assert await second.process.wait() == 0


def test_a_message_of_nested_json_is_shown_and_ends_nothing() -> None:
    for content in (b"[" * 20_000, b'{"name":' * 5000, b"\xff\xfe", b'{"name": 1}', b"3", b""):
        message = ChannelMessage("id", "sender", content, 1)
        assert line_of(message).startswith("?: ")


async def test_a_store_node_bridges_members_that_never_meet(tmp_path: Path) -> None:
    keeper = ["r", "--db", f"{tmp_path}/keeper.db", "--key", f"{tmp_path}/keeper"]
    async with terminal("store", *keeper) as store:
        address = await address_of(store)
        async with terminal(
            "chat", "--name", "ann", "--room", "r", "--bootstrap", address
        ) as first:
            await first.type("is anybody there?")
            await first.wait_for("* received, first by")
        async with terminal(
            "chat", "--name", "bob", "--room", "r", "--bootstrap", address
        ) as second:
            await second.wait_for("ann: is anybody there?")


async def test_what_cannot_work_is_said(tmp_path: Path) -> None:
    (tmp_path / "broken.db").write_bytes(b"no database at all" * 99)
    (tmp_path / "broken").write_bytes(b"short")
    chat = "chat"

    async def say(*arguments: str) -> tuple[int, str]:
        result = await trio.run_process(
            [sys.executable, "-m", "episub_router", *arguments], capture_stderr=True, check=False
        )
        return result.returncode, result.stderr.decode()

    code, text = await say(chat, "--db", str(tmp_path / "x.db"))
    assert code == 2
    assert "--db needs --key" in text
    code, text = await say(chat, "--db", str(tmp_path / "broken.db"), "--key", str(tmp_path / "k"))
    assert code == 1
    assert "damaged or no SQLite file" in text
    code, text = await say(chat, "--key", str(tmp_path / "broken"))
    assert code == 1
    assert "holds no libp2p private key" in text


@pytest.mark.parametrize("command", ["chat", "store"])
def test_an_occupied_port_is_refused(
    command: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--key", f"{tmp_path}/key", "--db", f"{tmp_path}/db"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"/ip4/127.0.0.1/tcp/{taken.getsockname()[1]}"
        topic = ["topic"] if command == "store" else []
        assert main([command, *topic, *arguments, "--listen", address]) == 1
    assert capfd.readouterr().err == f"episub: can't listen on {address}: Address already in use\n"


async def test_an_unknown_command_is_refused_and_not_sent() -> None:
    async with terminal("chat", "--name", "ann") as ann:
        await address_of(ann)
        await ann.type("/quti now")
        assert await ann.wait_for("no such command") == (
            "* no such command: /quti (/who, /log, /quit)"
        )
        await ann.type("/log")
        await ann.type("/quit")
        await ann.process.wait()
        assert "now" not in ann.said
