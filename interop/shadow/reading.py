"""What the nodes of a run have logged, and what they have sent."""

from __future__ import annotations

import ipaddress
import json
import struct
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from interop.plans.analysis import entries
from interop.shadow.configuration import address
from interop.shadow.scenario import Plan

_START = datetime(2000, 1, 1, tzinfo=UTC)
"""When Shadow's clocks start."""
_HEADER, _RECORD = 24, struct.Struct("<IIII")
"""Bytes of a pcap file's header; a record's: seconds, microseconds, bytes kept, bytes sent."""
_SOURCE = 12
"""Where an IPv4 header has the sender's address."""


@dataclass(slots=True)
class Outcome:
    """A run, in seconds since its start and bytes. Messages and hosts are numbers."""

    first: dict[tuple[int, int], float] = field(default_factory=dict)
    """When a message first came to a host."""
    copies: Counter[tuple[int, int]] = field(default_factory=Counter)
    """How often it did, or came back to its publisher."""
    published: dict[int, float] = field(default_factory=dict)
    """When a node says that it published a message; not all do."""
    started: list[int] = field(default_factory=list)
    """The hosts that began their scripts."""
    sent: list[dict[int, int]] = field(default_factory=list)
    """Bytes of IP packets that each host has sent, by the second."""

    def receipts(self) -> list[tuple[float, int, int]]:
        """Time, message and host of all first receipts, in order."""
        return sorted((time, *key) for key, time in self.first.items())


def read(plan: Plan, out: Path) -> Outcome:
    """The outcome of the run in `out`. Captures are removed when they have been read."""
    outcome = Outcome()
    for host in range(plan.hosts):
        home = out / "shadow" / "hosts" / f"node{host}"
        for log in home.glob("*.stdout"):
            with log.open(encoding="utf-8", errors="replace") as lines:
                _read_log(outcome, host, lines)
        sent: Counter[int] = Counter()
        for capture in home.glob("eth0.pcap"):
            for second, size in _sent(capture, ipaddress.ip_address(address(host)).packed):
                sent[second] += size
        for capture in home.glob("*.pcap"):
            capture.unlink()
        outcome.sent.append(dict(sent))
    (out / "outcome.json").write_text(
        json.dumps({"receipts": outcome.receipts(), "sent": outcome.sent})
    )
    return outcome


def _read_log(outcome: Outcome, host: int, lines: Iterator[str]) -> None:
    for entry in entries(lines):
        if entry["msg"] == "PeerID":
            outcome.started.append(host)
            continue
        time = (datetime.fromisoformat(entry["time"]) - _START).total_seconds()
        if entry["msg"] == "Published Message":
            outcome.published[int(entry["id"])] = time
        elif entry["msg"] == "Received Message":
            key = (int(entry["id"]), host)
            outcome.first.setdefault(key, time)
            outcome.copies[key] += 1


def _sent(capture: Path, own: bytes) -> Iterator[tuple[int, int]]:
    """Second since the start and bytes of each packet that a host has sent."""
    data = capture.read_bytes()
    at = _HEADER
    while at + _RECORD.size <= len(data):
        seconds, _, kept, size = _RECORD.unpack_from(data, at)
        at += _RECORD.size
        if data[at + _SOURCE : at + _SOURCE + len(own)] == own:
            yield seconds, size
        at += kept
