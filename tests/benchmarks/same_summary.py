"""Whether a change of the core left simulated runs as they were, to the byte.

    python -m tests.benchmarks.same_summary record FILE    # on the commit before
    python -m tests.benchmarks.same_summary compare FILE   # on the commit after

Makes short runs of each mechanism and attack with seed 1, and compares a digest of each
`summary.json` and of all effects of all nodes, in order. Where all are the same, results made with
the code before count as made with this one (tests/results/same_code.json). A minute or two; names
of runs after FILE restrict it to those.
"""

from __future__ import annotations

import hashlib
import json
import sys
import zlib
from pathlib import Path
from typing import Any
from unittest import mock

import episub_router
from episub_router.protocol.effects import Effect
from episub_router.protocol.topic import Topic
from episub_router.sim.runner import run
from episub_router.sim.scenario import loading
from tests.results.files import digest, note_same

_NODES = 40
_STEADY = {"traffic.start": 60.0, "phases.0.start": 60.0, "phases.1.start": 65.0}
_LARGE = {"traffic.start": 60.0, "phases.0.start": 60.0, "phases.1.start": 75.0}
_CRASH = {
    "traffic.start": 50.0, "traffic.messages": 200, "faults.0.at": 60.05,
    **{f"phases.{n}.start": at for n, at in enumerate((50.0, 55.0, 60.05, 61.05, 63.05))},
}  # fmt: skip
_CHURN = {
    "traffic.start": 40.0, "traffic.messages": 40, "faults.0.at": 45.0, "faults.0.until": 70.0,
    "faults.0.rate": 0.02, **{f"phases.{n}.start": at for n, at in enumerate((40.0, 45.0, 70.0))},
}  # fmt: skip
_MINUTE = {"traffic.messages": 100}
_SHARED = {"router.params.broadcast.source_trees": 0, "network.loss": 0.03}
_UPLINKS = {"network.uplink": 0.0, "network.uplinks": [10.0, 20.0, 50.0, 200.0, 1000.0]}

_RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "five sources": ("headline", "episub, uniform, five sources", _STEADY),
    "no authors": ("headline", "episub, uniform, five sources, no authors", _STEADY),
    "churn": ("churn-trees", "episub, plane, five sources", _CHURN),
    "crash": ("crash", "episub, uniform, noticed after 5 s", _CRASH),
    "shared tree": ("crash", "episub, uniform", _CRASH | _SHARED),
    "two parents": (
        "lossy-trees", "episub, uniform, five sources",
        _STEADY | {"router.params.broadcast.parents": 2},
    ),
    "hijack": ("hostile", "episub, searched for, hijack", _MINUTE),
    "IHAVE liars": ("hostile", "episub, searched for, IHAVE liar", _MINUTE),
    "JOIN capture": ("hostile", "episub, JOIN capture, 20 %", _MINUTE),
    "poison": ("hostile", "episub, poison", _MINUTE),
    "late greedy": ("hostile", "episub, random contacts, late greedy", _MINUTE),
    "large, lost": ("large", "episub-uniform-1MB-20, 5 % lost", _LARGE),
    "large, at once": ("large", "episub-uniform-1MB-20, five at once", _LARGE),
    "large, free-riders": ("large", "episub-uniform-1MB-20, 20 % free-riders", _LARGE | _UPLINKS),
    "nat": ("nat", "", {"traffic.start": 40.0, "traffic.messages": 20}),
    "join storm": ("join-storm", "", {"network.nodes": 100, "traffic.start": 40.0}),
    "partition": ("partition-heal", "", {"traffic.messages": 60}),
    "no rings": ("hyparview-failures", "", {}),
}  # fmt: skip
"""Each run: its scenario, the variant ("" where there are none), and what is changed."""


def fingerprint(name: str) -> str:
    """Digests of the summary and of the effects that the run `name` gives now."""
    scenario, variant, settings = _RUNS[name]
    tables = loading.load(scenario).tables({"network.nodes": _NODES, **settings}, (variant,))
    seen = 0

    def noted(effects: list[Effect]) -> list[Effect]:
        nonlocal seen
        seen = zlib.crc32(repr(effects).encode(), seen) if effects else seen
        return effects

    handle, handle_timer = Topic.handle, Topic.handle_timer
    with (
        mock.patch.object(Topic, "handle", lambda *given: noted(handle(*given))),
        mock.patch.object(Topic, "handle_timer", lambda *given: noted(handle_timer(*given))),
    ):
        table = tables.get(variant) or next(iter(tables.values()))
        text = run(loading.build(table), seed=1).to_json()
    found = f"{hashlib.sha256(text.encode()).hexdigest()[:16]} {seen:08x}"
    print(f"{name}: {found}", flush=True)
    return found


def main(arguments: list[str]) -> int:
    """Carry out the command line; 1 where a run has changed, 2 where it can't be used."""
    if len(arguments) < 2 or arguments[0] not in ("record", "compare"):
        print(__doc__, file=sys.stderr)
        return 2
    command, file, *names = arguments
    found = {name: fingerprint(name) for name in names or _RUNS}
    code = digest(Path(episub_router.__file__).parent / "protocol")
    if command == "record":
        text = json.dumps({"code": code, "runs": found}, indent=1)
        Path(file).write_text(text + "\n", encoding="utf-8")
        return 0
    before = json.loads(Path(file).read_text(encoding="utf-8"))
    changed = [name for name in found if found[name] != before["runs"].get(name)]
    print(f"changed: {', '.join(changed)}" if changed else "all the same")
    if not changed and not names:
        note_same("protocol", before["code"], code)
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
