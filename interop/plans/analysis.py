"""What test-plans' analysis says of the nodes' logs: reliability, dissemination, duplicates."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Dissemination:
    """One message. Times are seconds since it first came to a node that isn't its publisher."""

    message: str
    last: float
    half: float
    duplicates: float
    """Further copies, per node of all."""
    reliability: float
    """Share of the nodes but the publisher that it came to, among `receivers`."""


def analyse(
    logs: Iterable[Iterable[str]], receivers: int | None = None, skip: int = 0
) -> list[Dissemination]:
    """The messages in the order of their first receipts, without the first `skip`.

    `receivers` are the nodes that each message is for, its publisher not counted; by default
    all nodes but one. Lines that are no JSON objects with `msg` are passed over.
    """
    first: defaultdict[str, dict[int, float]] = defaultdict(dict)
    copies: defaultdict[str, int] = defaultdict(int)
    nodes = 0
    for place, lines in enumerate(logs):
        for entry in entries(lines):
            if entry["msg"] == "PeerID":
                nodes += 1
            elif entry["msg"] == "Received Message":
                time = datetime.fromisoformat(entry["time"]).timestamp()
                if place in first[entry["id"]]:
                    copies[entry["id"]] += 1
                else:
                    first[entry["id"]][place] = time
    due = nodes - 1 if receivers is None else receivers
    found = []
    for message, times in sorted(first.items(), key=lambda item: min(item[1].values())):
        ordered = sorted(times.values())
        found.append(
            Dissemination(
                message,
                ordered[-1] - ordered[0],
                ordered[len(ordered) // 2] - ordered[0],
                copies[message] / nodes,
                # A copy may have come back to the publisher as well.
                min(1.0, len(ordered) / due),
            )
        )
    return found[skip:]


def entries(lines: Iterable[str]) -> Iterator[dict[str, str]]:
    """The lines that are JSON objects with `msg`."""
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and "msg" in entry:
            yield entry


def lines(found: Sequence[Dissemination], published: int) -> list[str]:
    """The analysis as text, a line per message and one for all; `published` were to be found."""
    text = [
        f"{d.message}, {d.last:.3f}s, {d.half:.3f}s, {d.duplicates:.2f}, {d.reliability:.3f}"
        for d in found
    ]
    if not found:
        return ["no message came to any node"]
    count = len(found)
    last, half = max(d.last for d in found), sorted(d.half for d in found)[count // 2]
    duplicates = sum(d.duplicates for d in found) / count
    reliability = sum(d.reliability for d in found) / published
    text.append(
        f"{count} of {published} messages: reliability {reliability:.4f}, last after at most "
        f"{last:.3f} s, half after {half:.3f} s (median), {duplicates:.2f} duplicates a node"
    )
    return text
