"""Write docs/interop-suite.md from suite.toml: `python -m tests.upstream.render`."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PATH = HERE.parent.parent / "docs" / "interop-suite.md"

_INTRODUCTION = """\
# py-libp2p's own pubsub tests

The source distribution of libp2p {version} has {total} pubsub tests. Where one of them asks for a
GossipSub host, `tests/upstream/` gives it one with an `EpisubRouter`, and runs the {run} tests that
check what any router has to do: once over `/episub/1.0.0`, and once with `offer_episub=False`, in
which case the embedded GossipSub does the work. All of them have to pass in both. One defect
of libp2p {version} is kept from failing one of them now and then: its Pubsub raises into the swarm
over a frame that comes in while it stops.

    pytest tests/upstream

downloads the source distribution with pip, pinned by its hash, into the user's cache; without the
network it is skipped, except where `CI` is set. `tests/upstream/suite.toml` names each test with
its group, and the run fails if the two don't agree. `python -m tests.upstream.render` wrote this.
"""


def render() -> str:
    """The text of docs/interop-suite.md."""
    suite: dict[str, Any] = tomllib.loads((HERE / "suite.toml").read_text(encoding="utf-8"))
    groups: list[dict[str, Any]] = suite["group"]
    applies = [group for group in groups if group["modes"]]
    files = Counter(test.split("::")[0] for group in applies for test in group["tests"])
    lines = [
        _INTRODUCTION.format(
            version=suite["version"],
            total=sum(len(group["tests"]) for group in groups),
            run=sum(len(group["tests"]) for group in applies),
        ),
        "| tests | number | run | why |",
        "|---|--:|---|---|",
    ]
    for group in groups:
        run = ", ".join(group["modes"]) or "no"
        lines.append(f"| {group['name']} | {len(group['tests'])} | {run} | {group['reason']} |")
    lines += ["", "Where those that run come from:", "", "| file | number |", "|---|--:|"]
    lines += [f"| `{name}` | {count} |" for name, count in sorted(files.items())]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PATH.write_text(render(), encoding="utf-8")
