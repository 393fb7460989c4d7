"""A peer's process: its commands, its events, its log."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import trio

from tests.forking import ForkedProcess

PATIENCE = 60.0
"""Seconds for anything that is sure to happen: a busy machine takes long to start a process."""

Event = dict[str, Any]


class PeerDied(Exception):
    """The process ended while something was expected of it."""


class Peer:
    """A running peer. `events` are all that it reported so far, in order, with the time (`at`)."""

    def __init__(self, name: str, process: trio.Process | ForkedProcess, log: Path) -> None:
        self.name = name
        self.kind = name.rstrip("0123456789")
        self.process = process
        self.events: list[Event] = []
        self.id = ""
        self.addresses: list[str] = []
        self.versions: dict[str, str] = {}
        self._log = log
        self._by_name: defaultdict[str, list[Event]] = defaultdict(list)
        self._subscribers: defaultdict[str, set[str]] = defaultdict(set)
        self.ended = False
        self._news = trio.Event()
        self._input = trio.Lock()

    def __repr__(self) -> str:
        return self.name

    # What it reports

    async def read(self) -> None:
        """Collect events until the process closes its output."""
        assert self.process.stdout is not None
        buffer = b""
        with self._log.open("wb") as log:
            async for chunk in self.process.stdout:
                log.write(chunk)
                log.flush()
                *lines, buffer = (buffer + chunk).split(b"\n")
                now = trio.current_time()
                for line in lines:
                    event = json.loads(line) | {"at": now}
                    self._note(event)
                self._wake()
        self.ended = True
        self._wake()

    def _note(self, event: Event) -> None:
        self.events.append(event)
        self._by_name[event["event"]].append(event)
        if event["event"] == "peer_subscribed":
            self._subscribers[event["topic"]].add(event["peer"])
        elif event["event"] == "peer_unsubscribed":
            self._subscribers[event["topic"]].discard(event["peer"])

    def _wake(self) -> None:
        self._news.set()
        self._news = trio.Event()

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait until events have made `condition` true."""
        try:
            with trio.fail_after(PATIENCE):
                while not condition():
                    if self.ended:
                        raise PeerDied(f"{self} ended before: {what}")
                    await self._news.wait()
        except trio.TooSlowError:
            raise AssertionError(
                f"{self} did not report within {PATIENCE:g} s: {what}; its last events: "
                f"{self.events[-5:]}"
            ) from None

    def reported(self, event: str, **fields: Any) -> list[Event]:
        """The events of that name with these fields."""
        return self.reported_since(0, event, **fields)

    def reported_since(self, index: int, event: str, **fields: Any) -> list[Event]:
        """The same without the first `index` events of that name."""
        found = self._by_name[event][index:]
        wanted = fields.items()
        return [e for e in found if all(e.get(k) == v for k, v in wanted)] if fields else found

    def count(self, event: str) -> int:
        """How many events of that name there are."""
        return len(self._by_name[event])

    async def event(self, event: str, *, count: int = 1, **fields: Any) -> Event:
        """The `count`th event of that name with these fields, once it has come."""
        await self.until(
            lambda: self.count(event) >= count and len(self.reported(event, **fields)) >= count,
            f"{count} of {event} {fields}",
        )
        return self.reported(event, **fields)[count - 1]

    def subscribers(self, topic: str) -> set[str]:
        """The peers that this one now knows as subscribed."""
        return self._subscribers[topic]

    def mesh(self, topic: str) -> list[str]:
        """The peers that are now in this one's mesh."""
        found = self.reported("mesh", topic=topic)
        return list(found[-1]["peers"]) if found else []

    def protocol(self, other: Peer) -> str | None:
        """What this peer's stream to the other one speaks."""
        found = self.reported("protocol", peer=other.id)
        return str(found[-1]["protocol"]) if found else None

    async def knows(self, other: Peer, topic: str) -> None:
        """Wait until this peer can send the other one messages of the topic."""
        await self.until(
            lambda: other.id in self.subscribers(topic) and self.protocol(other) is not None,
            f"{other} is subscribed to {topic}",
        )

    async def forgets(self, other: Peer, topic: str) -> None:
        """Wait until this peer knows that the other one is no longer subscribed."""
        await self.until(
            lambda: other.id not in self.subscribers(topic), f"{other} has left {topic}"
        )

    async def meshed(self, other: Peer, topic: str) -> None:
        """Wait until the other peer is in this one's mesh."""
        await self.until(lambda: other.id in self.mesh(topic), f"{other} is in the mesh")

    # Its commands

    async def send(self, op: str, **arguments: Any) -> None:
        """Give one command."""
        assert self.process.stdin is not None
        async with self._input:
            await self.process.stdin.send_all(json.dumps({"op": op, **arguments}).encode() + b"\n")

    async def dial(self, other: Peer) -> None:
        """Connect to the other peer and wait until both have noticed."""
        await self.send("dial", addr=other.addresses[0])
        await self.event("connected", peer=other.id)
        await other.event("connected", peer=self.id)

    async def subscribe(self, topic: str) -> None:
        count = len(self.reported("subscribed", topic=topic))
        await self.send("subscribe", topic=topic)
        await self.event("subscribed", topic=topic, count=count + 1)

    async def unsubscribe(self, topic: str) -> None:
        count = len(self.reported("unsubscribed", topic=topic))
        await self.send("unsubscribe", topic=topic)
        await self.event("unsubscribed", topic=topic, count=count + 1)

    async def kill(self) -> None:
        """SIGKILL."""
        self.process.kill()
        await self.process.wait()

    async def end(self) -> int:
        """End its input; the exit status."""
        assert self.process.stdin is not None
        await self.process.stdin.aclose()
        with trio.fail_after(PATIENCE):
            return await self.process.wait()
