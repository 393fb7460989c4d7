"""Whether a change left the simulator's results as they were, to the byte.

    python -m tests.benchmarks.same_summary record FILE    # on the commit before
    python -m tests.benchmarks.same_summary compare FILE   # on the commit after

Runs short forms of eleven scenarios with seed 1 and compares the SHA-256 of each `summary.json`.
Two to three minutes on one core; names of runs after FILE restrict it to those.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

from episub_router.sim.runner import run
from episub_router.sim.scenario import loading

_NODES = 300

_RUNS: dict[str, tuple[str, str, dict[str, Any]]] = {
    **{f"simsub-{i}": (f"simsub-{i}", "", {}) for i in range(1, 7)},
    "headline, uniform, five sources": (
        "headline",
        "episub, uniform, five sources",
        {"traffic.start": 60.0, "traffic.messages": 30},
    ),
    "headline, plane, alpha 1.5": (
        "headline",
        "episub, plane, alpha 1.5",
        {"traffic.start": 100.0, "traffic.messages": 20},
    ),
    "churn": ("churn", "", {"traffic.messages": 40}),
    "partition-heal": ("partition-heal", "", {"traffic.messages": 80}),
    "nat": ("nat", "", {}),
}
"""Each run: its scenario, the variant ("" where there are none), and what is changed."""


def digest(name: str) -> str:
    """The SHA-256 of the summary that the run `name` gives now."""
    scenario, variant, settings = _RUNS[name]
    if not scenario.startswith("simsub"):
        settings = {"network.nodes": _NODES, **settings}
    runs = loading.load(scenario).scenarios(settings, (variant,))
    started = perf_counter()
    text = run(runs[variant], seed=1).to_json()
    found = hashlib.sha256(text.encode()).hexdigest()
    print(f"{name}: {found[:16]} ({perf_counter() - started:.1f} s)", flush=True)
    return found


def main(arguments: list[str]) -> int:
    """Carry out the command line; 1 where a summary has changed, 2 where it can't be used."""
    if len(arguments) < 2 or arguments[0] not in ("record", "compare"):
        print(__doc__, file=sys.stderr)
        return 2
    command, file, *names = arguments
    digests = {name: digest(name) for name in names or _RUNS}
    if command == "record":
        Path(file).write_text(json.dumps(digests, indent=1) + "\n", encoding="utf-8")
        return 0
    before = json.loads(Path(file).read_text(encoding="utf-8"))
    changed = [name for name in digests if digests[name] != before.get(name)]
    print(f"changed: {', '.join(changed)}" if changed else "all the same")
    return 1 if changed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
