"""Runs made by hand, whose answers are known: a parted network, clocks that are off, a trace that
lost something."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.pipeline.files import SECOND, START, delimited, node_events

Made = list[dict[str, Any]]

# A network that is parted.

PEERS = [f"p{number}" for number in range(8)]
BEGIN, END = 20, 50


def parted(apart: set[str], *, silent: bool, lost: int) -> Made:
    """Everybody gets something of everybody every two seconds, and a message of p0 every second;
    between BEGIN and END, `apart` have nothing of the others, and get the messages at END, but
    number `lost`. While they are `silent`, they trace nothing."""
    made: Made = []

    def add(event: str, peer: str, time: float, **columns: Any) -> None:
        made.append({"event": event, "peer": peer, "time": int(time * SECOND), "topic": "t",
                     **columns})  # fmt: skip

    for peer in PEERS:
        add("join", peer, 0)
        add("neighbor", peer, 1, remote="p0", state="up")
    for second in range(2, 70):
        cut = BEGIN <= second < END
        add("publish", "p0", second, message=f"m{second}")
        for peer in PEERS:
            if second % 2 or (cut and silent and peer in apart):
                continue
            for other in PEERS:
                if other != peer and not (cut and (peer in apart) != (other in apart)):
                    add("recv", peer, second + 0.3, remote=other, parts=[])
        for peer in PEERS[1:]:
            late = cut and peer in apart
            if not (late and second == lost):
                at = END + 0.1 if late else second + 0.1
                add("deliver", peer, at, message=f"m{second}", remote="p0", hops=1)
    return made


GONE, BACK, HEALED = 101, 160, 140


def sparse(apart: set[str], *, until: float, cut: bool) -> Made:
    """For 200 s everybody gets something of everybody and p0 sends something to everybody every
    second, and p0 publishes every 30 s. From GONE on, `apart` have nothing of the others (`cut`),
    and get the messages in the end, or don't run, and miss them; until then a new process begins,
    and traces from there."""
    made: Made = []

    def add(event: str, peer: str, time: float, **columns: Any) -> None:
        made.append({"event": event, "peer": peer, "time": int(time * SECOND), "topic": "t",
                     **columns})  # fmt: skip

    for peer in PEERS:
        add("header", peer, 0, detail='{"written": 0}')
        add("join", peer, 0)
        add("neighbor", peer, 1, remote="p0", state="up")
    for second in range(2, 200):
        lacks = GONE <= second < until
        for peer in PEERS:
            if lacks and not cut and peer in apart:
                continue
            for other in PEERS:
                if other != peer and not (lacks and (cut or other in apart)
                                          and (peer in apart) != (other in apart)):  # fmt: skip
                    add("recv", peer, second + 0.3, remote=other, parts=[])
            if peer != "p0":
                add("send", "p0", second + 0.2, remote=peer, parts=[])
        if second % 30 == 0:
            add("publish", "p0", second, message=f"m{second}")
            for peer in PEERS[1:]:
                late = lacks and peer in apart
                if cut or not late:
                    at = until + 0.1 if late else second + 0.1
                    add("deliver", peer, at, message=f"m{second}", remote="p0", hops=1)
    if not cut:
        for peer in apart:
            add("header", peer, until, detail='{"written": 0}')
            # It stays what it was to the others.
            for second in range(GONE, 200):
                add("send", "p0", second + 0.2, remote=peer, parts=[])
    return [event for event in made if event["time"] < 200 * SECOND]


def full_queue() -> Made:
    """A whole network, in which p0's queue for p1 is too full for a message, of which nobody else
    has p1 know. A hostile p7 doesn't take it."""
    made = parted(set(), silent=False, lost=0)
    made.append({"event": "node", "state": "hostile", "peer": "p7", "time": 0})
    about = {"message": "full", "topic": "t"}
    parts = [{"kind": "message", "topic": "t", "messages": ["full"], "peers": None}]
    at = 30 * SECOND + SECOND // 2
    made.append(about | {"event": "publish", "peer": "p0", "time": at})
    for peer in PEERS[1:]:
        event = "drop" if peer == "p1" else "send"
        made.append({"event": event, "peer": "p0", "remote": peer, "time": at, "topic": "t",
                     "parts": parts})  # fmt: skip
        if peer not in ("p1", "p7"):
            made.append(about | {"event": "deliver", "peer": peer, "remote": "p0", "hops": 1,
                                 "time": at + SECOND // 10})  # fmt: skip
    return made


def slow_link() -> Made:
    """A whole network of go, in which a message of p0 takes 4.5 s to p1, 4.2 s of them in p0's
    stream."""
    made = parted(set(), silent=False, lost=0)
    about = {"message": "slow", "topic": "t"}
    parts = [{"kind": "message", "topic": "t", "messages": ["slow"], "peers": None}]
    to = {"peer": "p0", "remote": "p1", "topic": "t", "parts": parts}
    at = 30 * SECOND + SECOND // 2
    made += [
        about | {"event": "publish", "peer": "p0", "time": at},
        to | {"event": "send", "time": at},
        to | {"event": "written", "time": at + 42 * SECOND // 10},
    ]
    return made + [
        about | {"event": "deliver", "peer": peer, "remote": "p0", "hops": 1,
                 "time": at + (45 if peer == "p1" else 1) * SECOND // 10}
        for peer in PEERS[1:]
    ]  # fmt: skip


# Clocks that are off.

DELAY = 30_000_000


def mesh(peers: list[str], every: int = 1) -> Made:
    """Peers that publish in turn, `every` some seconds, three messages each, and send each to all
    others; delays are the same both ways."""
    made: Made = []

    def add(event: str, peer: str, time: int, message: str, remote: str | None = None) -> None:
        parts = [{"kind": "message", "topic": "t", "messages": [message], "peers": None}]
        made.append({
            "event": event, "peer": peer, "time": START + time, "message": message, "topic": "t",
            "remote": remote, "parts": parts if event in ("send", "recv") else None,
        })  # fmt: skip

    for number, source in enumerate(peers * 3):
        at, message = number * every * SECOND, f"m{number}"
        add("publish", source, at, message)
        for peer in peers:
            if peer != source:
                add("send", source, at, message, peer)
                add("recv", peer, at + DELAY, message, source)
                add("deliver", peer, at + DELAY, message, source)
    return made


FOUR, FIVE = list("abcd"), list("abcde")
SKEW = {"a": 0, "b": 60 * SECOND, "c": 0, "d": -800_000_000}


def skewed() -> Made:
    """Clocks are off by up to a minute."""
    return [event | {"time": event["time"] + SKEW[event["peer"]]} for event in mesh(FOUR)]


def jumped() -> Made:
    """The clock of `d` is set in the middle of the run, by five seconds."""
    return [
        event | {"time": event["time"] + 5 * SECOND}
        if event["peer"] == "d" and event["time"] > START + 7 * SECOND
        else event
        for event in mesh(FIVE)
    ]


# A trace that lost something.


def write_lossy_star(directory: Path) -> None:
    """Traces of a star; node 3's has lost its last message."""
    directory.mkdir()
    for node in range(4):
        events = node_events(node, messages=5)
        if node == 3:
            events = [event for event in events if event.deliverMessage.messageID != b"id-4"]
            events = [
                event
                for event in events
                if all(m.messageID != b"id-4" for m in event.recvRPC.meta.messages)
            ]
        (directory / f"{node}.pb").write_bytes(delimited(events))
