"""`episub chat` and `episub store` as people use them: processes, pipes, kill -9."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from episub_router import EpisubRouter
from episub_router.cli.chat.lines import Line, MemberNames
from episub_router.cli.chat.room import MAX_LINE, Room
from episub_router.cli.main import main
from episub_router.sds import ChannelMessage, SdsChannel, SqliteStore
from tests.children import trio_child
from tests.forking import ForkedProcess, forked
from tests.hosts import free_port, running_nodes
from tests.sds.sqlite import sqlite_limit

pytestmark = pytest.mark.hosts

PATIENCE = 120.0


class Terminal:
    """One process, with what it said so far."""

    def __init__(self, process: ForkedProcess) -> None:
        self.process = process
        self.said = ""

    async def type(self, line: str) -> None:
        await self.process.stdin.send_all(line.encode() + b"\n")

    async def wait_for(self, text: str) -> str:
        """The line that has `text`, once it has been said."""
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
    async with (
        await trio.open_file(os.devnull, "wb") as nowhere,
        forked("episub", [command, *arguments], nowhere.wrapped) as process,
    ):
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
            history = ["bob: hello from bob", "ann: hello from ann"]
            assert [line for line in second.said.splitlines() if line in history] == history
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


async def test_members_have_names_and_come_and_go() -> None:
    room = "it's a room"
    async with terminal("chat", "--name", "ann", "--room", room) as ann:
        hint = shlex.split(await ann.wait_for("others join with"))
        assert hint[4:7] == ["episub", "chat", f"--room={room}"]
        async with terminal("chat", "--name", "bob", *hint[6:]) as bob:
            await ann.wait_for("* bob joined")
            await bob.wait_for("* ann joined")
            await ann.type("hello")
            await bob.wait_for("ann: hello")
            await ann.wait_for("* received, first by bob")
            await ann.type("/who")
            await ann.wait_for("* bob has your last line")
            await bob.type("/quit")
            assert await bob.process.wait() == 0
        await ann.wait_for("* bob left")


async def test_ctrl_c_is_one_line() -> None:
    async with trio_child(
        [sys.executable, "-m", "episub_router", "chat"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        with trio.fail_after(PATIENCE):
            assert b"others join with" in await process.stdout.receive_some()
            process.send_signal(signal.SIGINT)
            assert await process.wait() == 130
            said = b"".join([part async for part in process.stderr])
        assert said == b"episub: interrupted\n"


async def test_a_full_disk_is_one_line_and_what_was_sent_before_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    receiving, sending = os.pipe()
    store = SqliteStore(tmp_path / "room.db")
    said = ""

    async def wait_for(text: str) -> None:
        nonlocal said
        with trio.fail_after(PATIENCE):
            while text not in said:
                await trio.sleep(0.01)
                said += capsys.readouterr().out

    async with (
        running_nodes(1, router=EpisubRouter) as [node],
        SdsChannel(node.pubsub, "room", store=store) as channel,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(Room(channel, "ann").run, receiving)
        os.write(sending, b"before\n/log\n")
        await wait_for("  ann: before")
        with sqlite_limit(store, 5):
            os.write(sending, b"x" * (MAX_LINE - 10_000) + b"\n")
            await wait_for("* not sent: ")
        assert said.count("the disk is full") == 1
        os.write(sending, b"after\n/log\n")
        await wait_for("  ann: after")
        os.close(sending)
    os.close(receiving)
    store.close()
    assert [line for line in said.splitlines() if line.startswith("  ")][-2:] == [
        "  ann: before",
        "  ann: after",
    ]


def test_a_name_that_two_members_gave_themselves_is_told_apart() -> None:
    members = MemberNames()
    for sender in ("alice-1", "alice-2"):
        said = Line("alice", "hi").encoded()
        shown = members.shown(ChannelMessage(sender, sender, said, 1))
    assert shown == "alice (...lice-2): hi"
    notice = ChannelMessage("id", "bob", Line("bob", notice="left").encoded(), 1)
    assert members.shown(notice) == "* bob left"


def test_a_message_of_nested_json_is_shown_and_ends_nothing() -> None:
    for content in (b"[" * 20_000, b'{"name":' * 5000, b"\xff\xfe", b'{"name": 1}', b"3", b""):
        message = ChannelMessage("id", "sender", content, 1)
        assert MemberNames().shown(message).startswith("?: ")


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


async def test_a_store_node_serves_metrics_and_ends_as_a_service(tmp_path: Path) -> None:
    keeper = ["r", "--db", f"{tmp_path}/keeper.db", "--key", f"{tmp_path}/keeper"]
    port = free_port()
    async with terminal("store", *keeper, "--metrics", str(port)) as store:
        await address_of(store)
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(b"GET /metrics HTTP/1.0\r\n\r\n")
            answer = b"".join([part async for part in stream])
        assert b'episub_events_total{event="' in answer
        store.process.send_signal(signal.SIGTERM)
        with trio.fail_after(PATIENCE):
            assert await store.process.wait() == 143
    assert "keeper.db-wal" not in os.listdir(tmp_path)  # it was closed


def test_what_cannot_work_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken.db").write_bytes(b"no database at all" * 99)
    (tmp_path / "broken").write_bytes(b"short")
    with pytest.raises(SystemExit, match="2"):
        main(["chat", "--db", str(tmp_path / "x.db")])
    assert "--db needs --key" in capsys.readouterr().err
    broken = str(tmp_path / "broken")
    assert main(["chat", "--db", f"{broken}.db", "--key", str(tmp_path / "k")]) == 1
    assert "damaged or no SQLite file" in capsys.readouterr().err
    assert main(["chat", "--key", broken]) == 1
    assert "holds no libp2p private key" in capsys.readouterr().err


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
