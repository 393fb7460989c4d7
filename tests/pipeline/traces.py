"""Small random traces: a few dozen nodes that join, link, publish, forward, fail and talk."""

from __future__ import annotations

import json
import random
from typing import Any

from tests.pipeline.oracle import SECOND, Event

_COLUMNS = (
    "event", "peer", "time", "topic", "message", "remote", "hops", "size", "payload", "seq",
    "state", "kind", "reason", "count", "rtt", "parts", "sds",
)  # fmt: skip


PATIENCE, WINDOW, DEADLINE = 10, 5, 3
"""Seconds, of the answers about all runs here."""

SEEDS = (0, 1, 2, 4, 5, 7)
"""One or two topics, with and without hops, traced sends, and an overlay."""

UNTRACED = "untraced"
"""A peer that others get messages from, and that has no trace."""


class RandomTrace:
    """The events of a run of 10 to 50 nodes; everything is drawn from `seed`."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        nodes, messages = self.rng.randint(10, 50), self.rng.randint(1, 9)
        self.events: list[Event] = []
        self.peers = [f"peer-{number}" for number in range(nodes)]
        self._topics = ["a", "b"][: self.rng.choice([1, 1, 2])]
        self._traced_hops = self.rng.random() < 0.5
        self._traced_sends = self.rng.random() < 0.7
        # Every third has meshes alone, as gossipsub has.
        self._has_overlay = seed % 3 != 1
        self._lives()
        for number in range(messages):
            self._message(f"m{number}")
        self._control()
        self._sds()
        self._traits(random.Random(f"traits {seed}"))
        self.rng.shuffle(self.events)
        for offset, event in enumerate(self.events):
            event["offset"] = offset

    def add(self, event: str, peer: str, time: int, **columns: Any) -> None:
        self.events.append(
            dict.fromkeys(_COLUMNS) | {"event": event, "peer": peer, "time": time} | columns
        )

    def _at(self, low: float, high: float) -> int:
        return int(self.rng.uniform(low, high) * SECOND)

    def _lives(self) -> None:
        rng = self.rng
        for peer in self.peers:
            for topic in self._topics:
                if rng.random() < 0.9:
                    self.add("join", peer, self._at(0, 12), topic=topic)
                for other in rng.sample(self.peers, 4):
                    if other != peer:
                        self._link(peer, other, topic)
            if rng.random() < 0.15:
                state = rng.choice(["leave", "crash"])
                gone = self._at(15, 50)
                self.add("node", peer, gone, state=state)
                if rng.random() < 0.5:
                    self.add("join", peer, gone + self._at(1, 9), topic=self._topics[0])
            elif rng.random() < 0.1:
                self.add("leave", peer, self._at(20, 50), topic=self._topics[0])
            other = rng.choice(self.peers)
            self.add("stream-up", peer, self._at(0, 9), remote=other, kind="/episub")
            if rng.random() < 0.3:
                self.add("stream-down", peer, self._at(10, 50), remote=other)
            self.add("rtt", peer, self._at(1, 40), remote=other, rtt=rng.randrange(10**6, 10**8))

    def _traits(self, rng: random.Random) -> None:
        """Headers, regions and protocols, of some peers more than one, of some none."""
        first: dict[str, int] = {}
        for event in self.events:
            first[event["peer"]] = min(event["time"], first.get(event["peer"], event["time"]))
            if event["event"] == "stream-up":
                event["kind"] = rng.choice(["/episub", "/meshsub/1.1.0", None])
        for peer, begin in first.items():
            for _ in range(rng.choice([0, 1, 1, 1, 2])):
                said = {"software": ["x/1", "y/2"], "router": ["episub", "gossipsub"],
                        "region": ["north", "south"]}  # fmt: skip
                chosen = {name: rng.choice(of) for name, of in said.items() if rng.random() < 0.7}
                self.add("header", peer, begin, detail=json.dumps(chosen))
            if rng.random() < 0.4:
                self.add("node", peer, begin, state="start", kind=rng.choice(["east", None]))

    def _link(self, peer: str, other: str, topic: str) -> None:
        rng = self.rng
        up = self._at(1, 20)
        if self._has_overlay:
            self.add("neighbor", peer, up, remote=other, topic=topic, state="up", kind="random")
        self.add("graft", peer, up + 1, remote=other, topic=topic, state="eager")
        if rng.random() < 0.5:
            self.add("prune", peer, self._at(21, 30), remote=other, topic=topic, state="lazy")
        if rng.random() < 0.3:
            self.add("graft", peer, self._at(31, 40), remote=other, topic=topic, state="eager")
        if self._has_overlay and rng.random() < 0.3:
            self.add("neighbor", peer, self._at(41, 50), remote=other, topic=topic, state="down")

    def _message(self, message: str) -> None:
        rng = self.rng
        topic = rng.choice(self._topics)
        source = rng.choice(self.peers)
        start = self._at(5, 60)
        size = rng.randrange(100, 2000)
        if rng.random() < 0.9:
            self.add("publish", source, start, topic=topic, message=message, size=size)
        when = {source: start}
        hops = {source: 0}
        if rng.random() < 0.5:
            when[UNTRACED], hops[UNTRACED] = start, 1
        traced_hops = self._traced_hops and rng.random() < 0.9
        if rng.random() < 0.9:
            self.add("deliver", source, start, topic=topic, message=message, remote=source,
                     hops=0 if traced_hops else None, size=size)  # fmt: skip
        reached = rng.sample(self.peers, rng.randrange(1, len(self.peers)))
        for peer in reached:
            if peer == source:
                continue
            parent = rng.choice(list(when))
            sent = when[parent] + self._at(0, 0.05)
            when[peer] = sent + self._at(-0.001, 0.2)
            hops[peer] = hops[parent] + 1
            self._copy("deliver", peer, parent, sent, when[peer], topic, message, size,
                       hops[peer] if traced_hops else None)  # fmt: skip
            for _ in range(rng.choice([0, 0, 1, 2])):
                other = rng.choice(self.peers)
                if other != peer:
                    late = when[peer] + self._at(0, 0.5)
                    self._copy("duplicate", peer, other, late - 1, late, topic, message, size, None)
                    if rng.random() < 0.3:
                        part = _part(rng.choice(["iwant", "graft"]), topic, [message])
                        self._rpc("send", peer, other, late - 2, [part])

    def _copy(
        self, event: str, peer: str, sender: str, sent: int, came: int, topic: str, message: str,
        size: int, hops: int | None,
    ) -> None:  # fmt: skip
        part = _part("message", topic, [message])
        if self._traced_sends and sender != UNTRACED:
            self._rpc("send", sender, peer, sent, [part], size)
        self.add(event, peer, came, topic=topic, message=message, remote=sender, hops=hops,
                 size=size)  # fmt: skip

    def _rpc(
        self,
        direction: str,
        peer: str,
        remote: str,
        time: int,
        parts: list[Event],
        payload: int = 0,
    ) -> None:
        self.add(direction, peer, time, remote=remote, parts=parts, payload=payload,
                 size=payload + self.rng.randrange(10, 90))  # fmt: skip

    def _control(self) -> None:
        rng = self.rng
        for _ in range(3 * len(self.peers)):
            peer, remote = rng.sample(self.peers, 2)
            topic = rng.choice(self._topics)
            parts = [
                _part("ihave", topic, [f"m{rng.randrange(9)}" for _ in range(rng.randrange(4))]),
                _part("prune", topic, None),
                _part("subscribe", topic, None),
            ]
            direction = rng.choice(["send", "recv"])
            self._rpc(
                direction, peer, remote, self._at(0, 60), rng.sample(parts, rng.choice([1, 2]))
            )
            if rng.random() < 0.2:
                kind = rng.choice(["reject", "discard"])
                self.add(kind, peer, self._at(0, 60), remote=remote, topic=topic,
                         reason=rng.choice(["validation failed", "self originated message"]),
                         count=rng.choice([None, 3]))  # fmt: skip

    def _sds(self) -> None:
        rng = self.rng
        history: list[str] = []
        for number in range(4):
            message, sender = f"s{number}", rng.choice(self.peers[:4])
            start = self._at(10 + number, 11 + number)
            about = {"channel": "c", "message": message, "lamport": number + 1,
                     "history": history[-2:]}  # fmt: skip
            self._sds_event(sender, start, about | {"action": "send", "purpose": "content"})
            for peer in self.peers[:4]:
                if peer != sender and rng.random() < 0.8:
                    lost = history[-1:] if rng.random() < 0.2 else []
                    self._sds_event(peer, start + self._at(0, 3),
                                    about | {"action": "deliver", "lost": lost})  # fmt: skip
            if rng.random() < 0.7:
                self._sds_event(sender, start + self._at(3, 4), {
                    "channel": "c", "message": message, "action": "ack",
                    "probability": rng.choice([0.0, 0.01])})  # fmt: skip
            if rng.random() < 0.5:
                self._sds_event(sender, start + self._at(1, 4), {
                    "channel": "c", "message": message, "action": "send",
                    "purpose": "resend"})  # fmt: skip
            history.append(message)
        if rng.random() < 0.5:
            # It was there, and never got anything.
            missed = {"channel": "c", "message": "s1", "action": "missing", "history": ["s0"]}
            self._sds_event(self.peers[4], self._at(12, 16), missed)

    def _sds_event(self, peer: str, time: int, sds: dict[str, Any]) -> None:
        none = dict.fromkeys(
            ("action", "channel", "participant", "message", "other", "purpose", "lamport",
             "history", "position", "lost", "probability", "after")
        )  # fmt: skip
        self.add("sds", peer, time, topic="a", sds=none | {"participant": peer} | sds)


def _part(kind: str, topic: str, messages: list[str] | None) -> dict[str, Any]:
    return {"kind": kind, "topic": topic, "messages": messages, "peers": None}


def damaged(events: list[Event]) -> list[Event]:
    """`events`, in one of ten of which a bit of each number may be any."""
    rng = random.Random(1)
    widths = {"time": 62, "hops": 31, "size": 31, "payload": 31, "count": 31, "rtt": 63, "seq": 63}
    made = [dict(event) for event in events]
    for event in rng.sample(made, len(made) // 10):
        for name, bits in widths.items():
            if event[name] is not None:
                event[name] ^= 1 << rng.randrange(bits)
    return made
