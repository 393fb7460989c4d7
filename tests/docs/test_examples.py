"""Each program in docs/examples/ runs, and prints what it should."""

from __future__ import annotations

import asyncio
import json
import runpy
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import trio

from tests.cli.processes import node_process
from tests.docs import asgi
from tests.docs.snippets import ROOT, snippets
from tests.forking import ForkedProcess, Lines, forked
from tests.hosts import free_port

EXAMPLES = ROOT / "docs" / "examples"
PATIENCE = 120.0

PRINTED = {
    "validators": "valid: 1\nvalid: 3\n",
    "bursts": "500 of 500 arrived\nwithout waiting some were refused: True\n"
    "a time-out says which neighbour is behind: True\n",
    "large_messages": "received: 8,388,608 bytes\n"
    "refused: at most 16,777,216 bytes, with the signature\n"
    "received whole: 2,097,152 bytes\n",
    "sds_chat": "bob receives: is anybody there?\nann receives: I am\n"
    "ann's message is acknowledged by 1 member\nboth have the same log: True\n",
    "sds_cipher": "with the key: a secret\n",
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


@asynccontextmanager
async def running(path: Path, *arguments: str) -> AsyncIterator[tuple[ForkedProcess, Lines]]:
    """A program, and the lines that it prints."""
    command = [str(path), *arguments]
    with trio.fail_after(PATIENCE):
        async with forked("script", command, sys.stderr.buffer) as process:
            yield process, Lines(process.stdout)


async def test_two_processes() -> None:
    path = EXAMPLES / "two_processes.py"
    async with running(path) as (_, first):
        address = (await first.next()).split()[-1]
        async with running(path, address) as (process, second):
            await second.next()
            assert await second.next() == "received: hello from the first"
            assert await process.wait() == 0
        assert await first.next() == "received: hello from the second"


async def test_nodes_behind_a_relay() -> None:
    async with running(EXAMPLES / "relay.py", "/ip4/127.0.0.1/tcp/0") as (_, relay):
        listen = ("--listen", (await relay.next()).split()[-1])
        async with node_process(*listen) as one:
            listening = await one.event("listening")
            assert "/p2p-circuit/" in listening["addresses"][0]
            join = ("--bootstrap", *listening["addresses"])
            async with node_process(*listen, *join) as two:
                await two.type(b"hello\n")
                assert (await one.event("delivered"))["text"] == "hello"
                await two.end_input()
                assert await two.exit_status() == 0


async def serve(app: Callable[..., Any], use: Callable[[], Awaitable[None]]) -> None:
    """Run `use` while an ASGI application is up."""
    said: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    heard: asyncio.Queue[dict[str, str]] = asyncio.Queue()
    running = asyncio.create_task(app({"type": "lifespan"}, said.get, heard.put))
    for event in ("startup", "shutdown"):
        await said.put({"type": f"lifespan.{event}"})
        assert await heard.get() == {"type": f"lifespan.{event}.complete"}
        if event == "startup":
            await use()
    await running


def test_a_fastapi_service(monkeypatch: pytest.MonkeyPatch) -> None:
    """With FastAPI where it is installed, otherwise with what the example uses of it."""
    if find_spec("fastapi") is None:
        monkeypatch.setitem(sys.modules, "fastapi", asgi)
        monkeypatch.setitem(sys.modules, "fastapi.responses", asgi)
    app = runpy.run_path(str(EXAMPLES / "fastapi_app.py"))["app"]

    async def use() -> None:
        streams = [answer(app, "GET") for _ in range(2)]
        for stream in streams:
            assert await anext(stream) == STARTED
        posting = answer(app, "POST", b"hello")
        assert await anext(posting) == STARTED
        assert json.loads(await anext(posting)) == {"neighbors": 0}
        for stream in streams:
            assert await anext(stream) == b"hello\n"
            await stream.aclose()

    asyncio.run(asyncio.wait_for(serve(app, use), PATIENCE))


STARTED = b"started"


async def answer(
    app: Callable[..., Any], method: str, body: bytes = b""
) -> AsyncGenerator[bytes, None]:
    """`STARTED`, and the parts of the body of what an ASGI application answers to a request of
    /news."""
    parts: asyncio.Queue[bytes] = asyncio.Queue()
    asked = False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if asked:
            await asyncio.sleep(PATIENCE)
        asked = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.body":
            await parts.put(message["body"])
        else:
            await parts.put(STARTED)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
        "scheme": "http", "path": "/news", "raw_path": b"/news", "query_string": b"",
        "root_path": "", "headers": [], "client": None, "server": None, "app": app,
    }  # fmt: skip
    answering = asyncio.create_task(app(scope, receive, send))
    try:
        while True:
            yield await parts.get()
    finally:
        answering.cancel()


async def test_the_quick_start(tmp_path: Path) -> None:
    """Ten lines, with metrics and logs."""
    program = next(s for s in snippets(ROOT / "docs" / "quick-start.md") if s.language == "python")
    assert len([line for line in program.text.splitlines() if line.strip()]) == 10
    port = free_port()
    path = tmp_path / "hello.py"
    path.write_text(program.text.replace("9464", str(port)))
    async with forked("script", [str(path)]) as first:
        address = await logged(first, "started: ")
        async with forked("script", [str(path), address]) as second:
            own = await logged(second, "started: ")
            heard = Lines(first.stdout)
            while f"hello from {own}" not in await heard.next():
                continue
            page = await trio.to_thread.run_sync(read, f"http://127.0.0.1:{port}/metrics")
            assert b'gossipsub_mesh_peers{topic="news"} 1.0' in page


def read(url: str) -> bytes:
    with urlopen(url) as page:
        return bytes(page.read())


async def logged(process: ForkedProcess, what: str) -> str:
    """The last word of the first line with `what` in it."""
    logs = Lines(process.stderr)
    while what not in (line := await logs.next()):
        continue
    return line.split()[-1]


async def test_a_to_do_list_survives_kill_9(tmp_path: Path) -> None:
    """Each word counts once, whenever its process is killed."""
    assert len((EXAMPLES / "todo.py").read_text().splitlines()) <= 40
    for number, (words, line) in enumerate(
        (
            (["add", "milk"], "to do: milk"),
            (["add", "bread"], "to do: bread, milk"),
            (["done", "milk"], "to do: bread"),
        ),
        1,
    ):
        database = str(tmp_path / "todo.db")
        async with running(EXAMPLES / "todo.py", database, *words) as (process, printed):
            assert (await printed.next()).startswith("listening on")
            # Only what is new is read: the cursor was kept with the list.
            assert await printed.next() == line
            process.kill()
            await process.wait()
        state = json.loads((tmp_path / "todo.db.json").read_text())
        assert json.loads(state["cursor"])[2] == number


def test_every_example_is_run_and_listed() -> None:
    names = {path.stem for path in EXAMPLES.glob("*.py")}
    assert names == {*PRINTED, "two_processes", "pair", "fastapi_app", "todo", "relay"}
    text = Path(ROOT, "docs", "examples.md").read_text()
    assert all(f"(examples/{name}.py)" in text for name in names)
