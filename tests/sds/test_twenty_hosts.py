"""Twenty hosts in processes of their own, some killed with SIGKILL while everybody talks; over
stock gossipsub, twelve."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.children import end
from tests.forking import SERVER, ForkedProcess

pytestmark = pytest.mark.hosts

MEMBERS = {"episub": 20, "gossipsub": 12}
"""By the router: what a stock one does to twenty is its own affair."""
MESSAGES = 60
PATIENCE = 240.0
"""Seconds without an event, or without anything new."""
JOINING = 4
"""Members that start or dial at the same time: twenty processes share few cores."""


class Member:
    def __init__(self, directory: Path, router: str) -> None:
        self.directory = directory
        self.router = router
        directory.mkdir()
        self.sent: list[str] = []
        self.address = ""
        self.process: ForkedProcess | None = None
        self._buffer = b""
        self._events: deque[dict[str, Any]] = deque()

    async def start(self) -> None:
        self._buffer = b""
        self._events.clear()
        with (self.directory / "stderr").open("ab") as errors:
            arguments = ["--dir", str(self.directory), "--router", self.router]
            self.process = await SERVER.fork("sds member", arguments, errors)
        self.address = (await self.event("ready"))["address"]

    async def kill(self) -> None:
        await end(self.process)

    async def tell(self, command: str) -> None:
        await self.process.stdin.send_all(command.encode() + b"\n")

    async def event(self, name: str) -> dict[str, Any]:
        with trio.fail_after(PATIENCE):
            while True:
                while self._events:
                    event = self._events.popleft()
                    if event["event"] == name:
                        return event
                data = await self.process.stdout.receive_some()
                assert data, f"{self.directory.name} ended before {name}: {self.errors()}"
                *lines, self._buffer = (self._buffer + data).split(b"\n")
                self._events.extend(json.loads(line) for line in lines)

    def errors(self) -> str:
        """The end of what its processes wrote to standard error."""
        return (self.directory / "stderr").read_text(errors="replace")[-4000:]

    async def log(self) -> list[str]:
        await self.tell("log")
        return list((await self.event("log"))["ids"])

    async def send(self, text: str) -> None:
        await self.tell(f"send {text}")
        self.sent.append((await self.event("sent"))["id"])

    def delivered(self) -> list[dict[str, Any]]:
        lines = (self.directory / "delivered.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]


async def all_logged(members: list[Member], count: int) -> list[list[str]]:
    """The logs of `members`, once each has `count` entries."""
    logs: dict[Member, list[str]] = {}

    async def entries() -> int:
        for member in members:
            if len(logs.get(member, ())) < count:
                logs[member] = await member.log()
        return sum(map(len, logs.values()))

    await growing_to(len(members) * count, entries)
    # What came last may still have changed the order of what was there.
    return [await member.log() for member in members]


async def growing_to(wanted: int, size: Callable[[], int | Awaitable[int]]) -> None:
    """Wait until `size` is `wanted`, however long that takes on a slow machine, as long as it
    grows."""
    most = -1
    while True:
        with trio.fail_after(PATIENCE):
            while True:
                found = size()
                now = found if isinstance(found, int) else await found
                if now > most:
                    break
                await trio.sleep(1.0)
        most = now
        if most >= wanted:
            return


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("router", MEMBERS)
async def test_all_have_everything_once_in_one_order(router: str, tmp_path: Path) -> None:
    rng = random.Random(6)
    members = [Member(tmp_path / f"member-{n:02}", router) for n in range(MEMBERS[router])]

    joining = trio.CapacityLimiter(JOINING)

    async def start(member: Member) -> None:
        async with joining:
            await member.start()

    async def dial(member: Member, others: list[Member]) -> None:
        async with joining:
            for other in others:
                await member.tell(f"dial {other.address}")
                await member.event("dialled")

    try:
        async with trio.open_nursery() as nursery:
            for member in members:
                nursery.start_soon(start, member)
        async with trio.open_nursery() as nursery:
            for n, member in enumerate(members):
                others = [members[(n + step) % len(members)] for step in (1, 3, 7)]
                nursery.start_soon(dial, member, others)
        down: dict[Member, int] = {}
        kill_at = {15: members[4], 30: members[11]}
        for n in range(MESSAGES):
            if n in kill_at:
                await kill_at[n].kill()
                down[kill_at[n]] = n + 15
            for member in [m for m, until in down.items() if until == n]:
                await member.start()
                await dial(member, rng.sample([m for m in members if m not in down], 3))
                del down[member]
            speaker = rng.choice([m for m in members if m not in down])
            await speaker.send(f"message-{n}")
        everything = {i for m in members for i in m.sent}
        assert len(everything) == MESSAGES
        logs = await all_logged(members, MESSAGES)
        assert all(log == logs[0] for log in logs)
        assert set(logs[0]) == everything
        await growing_to(
            len(members) * MESSAGES - MESSAGES, lambda: sum(len(m.delivered()) for m in members)
        )
        for member in members:
            seen = set(member.sent)
            for record in member.delivered():
                assert record["id"] not in seen, "delivered twice"
                assert not record["missing"]
                assert set(record["after"]) <= seen, "delivered before what its sender had seen"
                seen.add(record["id"])
            assert seen == everything
    finally:
        for member in members:
            if member.process is not None:
                await end(member.process)
