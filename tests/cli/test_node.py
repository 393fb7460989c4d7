"""`episub node`: processes that talk to each other."""

from __future__ import annotations

import os
import shlex
import signal
import socket
from pathlib import Path

import pytest
import trio
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.id import ID

from episub_router.cli.arguments import CommandError
from episub_router.cli.keys import load_or_create
from episub_router.cli.main import main
from episub_router.cli.node.lines import HEAD, for_each_line
from episub_router.cli.node.output import PlainOutput, bar, printable
from episub_router.cli.node.run import MAX_LINE
from tests.cli.processes import PATIENCE, node_process
from tests.docs.snippets import ROOT
from tests.hosts import free_port

hosts = pytest.mark.hosts


@hosts
async def test_two_processes_talk() -> None:
    async with node_process() as first:
        listening = await first.event("listening")
        [address] = listening["addresses"]
        assert address.endswith(f"/p2p/{listening['peer']}")
        async with node_process("--bootstrap", address, fresh=True) as second:
            other = (await second.event("listening"))["peer"]
            assert (await first.event("peer-up"))["peer"] == other
            assert (await second.event("peer-up"))["peer"] == listening["peer"]

            await first.type(b"hello\n")
            assert (await first.event("published"))["text"] == "hello"
            delivered = await second.event("delivered")
            assert (delivered["source"], delivered["text"]) == (listening["peer"], "hello")

            # What stands before the end of the input arrives before the node leaves.
            await second.type(b"\xff\xfe\nbye")
            await second.end_input()
            assert (await first.event("delivered"))["base64"] == "//4="
            assert (await first.event("delivered"))["text"] == "bye"
            down = await first.event("peer-down")
            assert (down["peer"], down["neighbors"]) == (other, 0)
            assert await second.exit_status() == 0


@hosts
async def test_a_file_goes_as_one_message_and_is_seen_to_come(tmp_path: Path) -> None:
    data = os.urandom(2_000_000)
    (tmp_path / "model").write_bytes(data)
    saved = tmp_path / "saved"
    async with node_process("--stay", "--save", str(saved)) as receiver:
        listening = await receiver.event("listening")
        options = ("--bootstrap", listening["addresses"][0], "--file", str(tmp_path / "model"))
        async with node_process(*options) as sender:
            me = (await sender.event("listening"))["peer"]
            await sender.end_input()
            assert (await sender.event("published"))["file"] == str(tmp_path / "model")
            assert (await sender.event("sent"))["neighbors"] == 1
            assert await sender.exit_status() == 0
        received = 0
        while received < 2_000_000:
            step = await receiver.event("receiving")
            assert step["source"] == me
            assert received <= step["received"] <= step["size"]
            received = step["received"]
        delivered = await receiver.event("delivered")
        assert delivered["source"] == me
        path = Path(delivered["file"])
        assert path.parent == saved
        assert await trio.Path(path).read_bytes() == data


@hosts
async def test_a_file_that_is_not_there_or_too_large_fails_the_run(tmp_path: Path) -> None:
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(17 * 2**20)
    async with node_process("--stay") as other:
        [address] = (await other.event("listening"))["addresses"]
        for name, said in (("none", b"No such file"), ("huge", b"at most 16,777,216 fit pieces")):
            options = ("--bootstrap", address, "--file", str(tmp_path / name))
            async with node_process(*options) as node:
                assert await node.exit_status() == 1
                assert node.process.stderr is not None
                assert said in await node.process.stderr.receive_some()


def test_a_bar_shows_how_much_is_there() -> None:
    assert bar(0, 1000) == "[--------------------] 0 of 1,000 bytes"
    assert bar(500, 1000) == "[##########----------] 500 of 1,000 bytes"
    assert bar(1000, 1000) == "[####################] 1,000 of 1,000 bytes"


@hosts
async def test_stay_goes_on_after_the_input_until_interrupted() -> None:
    async with node_process("--stay") as relay:
        [address] = (await relay.event("listening"))["addresses"]
        await relay.end_input()
        async with node_process("--bootstrap", address) as other:
            await other.type(b"anybody there?\n")
            assert (await relay.event("delivered"))["text"] == "anybody there?"
        relay.process.send_signal(signal.SIGINT)
        assert await relay.exit_status() == 130


@hosts
async def test_a_service_manager_ends_it() -> None:
    async with node_process("--stay") as one:
        [address] = (await one.event("listening"))["addresses"]
        async with node_process("--stay", "--bootstrap", address) as other:
            for node in (one, other):
                await node.event("peer-up")
            one.process.send_signal(signal.SIGTERM)
            assert (await other.event("peer-down"))["reason"] == "left"
            status = await one.exit_status()
    unit = (ROOT / "docs" / "deployment.md").read_text()
    assert f"SuccessExitStatus={status}\n" in unit


@hosts
async def test_the_address_that_others_are_given() -> None:
    announced = "/dns4/news.example.org/tcp/4001"
    async with node_process("--announce", announced) as node:
        listening = await node.event("listening")
        assert listening["addresses"] == [f"{announced}/p2p/{listening['peer']}"]


@hosts
async def test_lines_that_find_no_neighbour_fail_the_run() -> None:
    async with node_process("--patience", "0.1") as alone:
        await alone.type(b"hello\n")
        assert await alone.exit_status() == 1
        assert alone.process.stderr is not None
        assert b"no neighbour within 0.1 s" in await alone.process.stderr.receive_some()


@hosts
async def test_verbose_says_what_can_not_be_reached() -> None:
    peer = ID.from_pubkey(create_new_key_pair(bytes(32)).public_key)
    address = f"/ip4/127.0.0.1/tcp/1/p2p/{peer}"
    async with node_process("--verbose", "--bootstrap", address) as node:
        assert node.process.stderr is not None
        said = b""
        with trio.fail_after(PATIENCE):
            while b"can't reach /ip4/127.0.0.1/tcp/1: nothing listens there" not in said:
                said += await node.process.stderr.receive_some()


def test_the_hint_to_join_can_be_typed(capsys: pytest.CaptureFixture[str]) -> None:
    PlainOutput().listening("peer", ["/ip4/127.0.0.1/tcp/1"], "it's; news")
    hint = capsys.readouterr().err.splitlines()[-1].partition("with: ")[2]
    assert shlex.split(hint) == [
        "episub", "node", "--topic=it's; news", "--bootstrap", "/ip4/127.0.0.1/tcp/1",
    ]  # fmt: skip


@hosts
async def test_a_key_file_gives_the_same_identity_again(tmp_path: Path) -> None:
    peers = set()
    for _ in range(2):
        async with node_process("--key", str(tmp_path / "key")) as node:
            peers.add((await node.event("listening"))["peer"])
            await node.end_input()
            assert await node.exit_status() == 0
    assert len(peers) == 1


def listen_in_vain(address: str, capfd: pytest.CaptureFixture[str]) -> str:
    """What `episub node` says of an address that it can't listen at."""
    # Given an open descriptor, as pytest's own standard input has none.
    with open(os.devnull) as nothing, pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdin", nothing)
        assert main(["node", "--topic", "t", "--listen", address]) == 1
    return capfd.readouterr().err


def test_a_port_that_is_taken(capfd: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"/ip4/127.0.0.1/tcp/{taken.getsockname()[1]}"
        said = listen_in_vain(address, capfd)
    assert said.startswith(f"episub: can't listen on {address}: ")


@hosts
def test_a_relay_that_is_not_there(capfd: pytest.CaptureFixture[str]) -> None:
    nobody = ID.from_pubkey(create_new_key_pair().public_key)
    relay = f"/ip4/127.0.0.1/tcp/{free_port()}/p2p/{nobody}/p2p-circuit"
    [line] = listen_in_vain(relay, capfd).splitlines()
    assert line.startswith(f"episub: can't listen on {relay}: ")
    assert "refused" in line


def test_a_new_key_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "key"
    made = load_or_create(path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_or_create(path) == made


@pytest.mark.parametrize("content", [b"", b"not base64!", b"AAAA", b"CAESAA=="])
def test_a_file_that_holds_no_key(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(CommandError, match="holds no libp2p private key"):
        load_or_create(path)
    assert path.read_bytes() == content


def test_a_key_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="can't read"):
        load_or_create(tmp_path)
    with pytest.raises(CommandError, match="can't write"):
        load_or_create(tmp_path / "no such directory" / "key")


async def lines_of(data: bytes, limit: int = 10) -> list[tuple[bytes, bool]]:
    found: list[tuple[bytes, bool]] = []

    async def handle(line: bytes, is_whole: bool) -> None:
        found.append((line, is_whole))

    receiving, sending = os.pipe()
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(for_each_line, receiving, limit, handle)
            await trio.to_thread.run_sync(os.write, sending, data)
            os.close(sending)
    finally:
        os.close(receiving)
    return found


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a\nb\r\n\nc", [(b"a", True), (b"b", True), (b"", True), (b"c", True)]),
        (b"0123456789\n", [(b"0123456789", True)]),
        (b"too long for it\nb\n", [(b"too long for it", False), (b"b", True)]),
        (b"too long and not ended", [(b"too long and not ended", False)]),
        # Longer than what is read at once.
        (b"x" * 200_000 + b"\nb\n", [(b"x" * HEAD, False), (b"b", True)]),
    ],
)
async def test_lines(data: bytes, lines: list[tuple[bytes, bool]]) -> None:
    assert await lines_of(data) == lines


@hosts
async def test_a_line_that_is_not_published_is_said_and_fails_the_run() -> None:
    async with node_process("--stay") as other:
        [address] = (await other.event("listening"))["addresses"]
        async with node_process("--bootstrap", address) as node:
            await node.event("peer-up")
            await node.type(b"large " + b"x" * MAX_LINE + b"\nsmall\n")
            failed = await node.event("failed")
            assert failed["text"].startswith("large xxx")
            assert failed["error"] == "a line of more than 1000000 bytes: see --file"
            assert (await node.event("published"))["text"] == "small"
            await node.end_input()
            assert await node.exit_status() == 1
        assert (await other.event("peer-down"))["reason"] == "left"


def test_a_message_cannot_command_the_terminal() -> None:
    assert printable(b"\x1b[2Jhi\r\n\xff") == "\\x1b[2Jhi\\r\\n\\xff"
    assert printable("grüße ✓".encode()) == "grüße ✓"


@hosts
async def test_metrics_are_served_on_loopback() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    async with node_process("--metrics", str(port)) as node:
        await node.event("listening")
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        async with stream:
            await stream.send_all(b"GET /metrics HTTP/1.0\r\n\r\n")
            answer = b"".join([part async for part in stream])
        assert b'gossipsub_mesh_peers{topic="' in answer
        await node.end_input()
        assert await node.exit_status() == 0
