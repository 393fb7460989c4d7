"""`python -m interop.shadow SCENARIO.toml`: real nodes in virtual time."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from episub_router.sim.scenario.loading import parse_settings
from episub_router.sim.strict import ScenarioError
from interop.shadow import configuration, figures, reading
from interop.shadow.kinds import KINDS
from interop.shadow.run import PROBLEM, ShadowError, find, run
from interop.shadow.scenario import Plan, load
from interop.shadow.table import lines

_FAILED, _NOT_RUN, _SKIPPED = 1, 2, 77
"""Exit statuses; 77 is what automake takes for a test that was skipped."""


def main(arguments: list[str]) -> int:
    """The exit status: 0, 1 if a message didn't come to a node, 2 if it couldn't be run, 77 without
    Shadow."""
    parser = argparse.ArgumentParser(prog="python -m interop.shadow", description=__doc__)
    add = parser.add_argument
    add("scenario", type=Path, help="a TOML file")
    add("--kinds", help=f"what runs, in turn: {', '.join(KINDS)}; default: the scenario's")
    add("--nodes", type=int, help="default: the scenario's")
    add("--seed", type=int, default=1)
    add("--set", action="append", default=[], metavar="KEY=VALUE", help="another setting")
    add("--out", type=Path, help="directory for what comes out of it")
    add("--page", action="store_true", help="make page.html (extra `report`)")
    add("--simulate", action="store_true", help="run the simulator as well")
    add("--json", action="store_true", help="print the figures as JSON, on one line")
    args = parser.parse_args(arguments)
    kinds = tuple(args.kinds.split(",")) if args.kinds else ()
    try:
        settings = parse_settings(args.set)
        if args.nodes is not None:
            settings["network.nodes"] = args.nodes
        plan = load(args.scenario, seed=args.seed, kinds=kinds, settings=settings)
    except (OSError, ScenarioError) as error:
        parser.error(str(error))
    program = find()
    if program is None:
        print(f"shadow: {PROBLEM}", file=sys.stderr)
        return _SKIPPED
    for kind in dict.fromkeys(plan.nodes.kinds):
        if reason := KINDS[kind].problem():
            print(f"shadow: {reason}", file=sys.stderr)
            return _NOT_RUN
    out = (args.out or Path(tempfile.mkdtemp(prefix="shadow-"))).absolute()
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        parser.error(f"{out} is not empty")
    return _run(program, plan, out, args)


def _run(program: str, plan: Plan, out: Path, args: argparse.Namespace) -> int:
    config = configuration.write(plan, out)
    for kind in dict.fromkeys(plan.nodes.kinds):
        KINDS[kind].prepare()
    try:
        cost = run(program, plan, config, out, _say)
    except ShadowError as error:
        print(f"shadow: {error}", file=sys.stderr)
        return _NOT_RUN
    outcome = reading.read(plan, out)
    result = {
        "name": ", ".join([plan.scenario.name, *args.set]),
        "seed": plan.seed,
        "hosts": plan.hosts,
        "kinds": list(plan.nodes.kinds),
        "rows": figures.rows(plan, outcome),
        "traffic": figures.traffic(plan, outcome),
        "cost": asdict(cost),
        "simulated": figures.simulated(plan) if args.simulate else [],
    }
    (out / "result.json").write_text(json.dumps(result, indent=1) + "\n")
    if args.page:
        # Altair takes a second to import.
        from interop.shadow.page import page as as_page

        (out / "page.html").write_text(as_page(plan, outcome, result))
    print(json.dumps(result) if args.json else "\n".join(lines([result])))
    absent = plan.hosts - len(outcome.started)
    if absent:
        _say(f"{absent} nodes did not start")
    _say(f"files are in {out}")
    missing = any(row["deliveries"] < row["due"] for row in result["rows"])  # type: ignore[attr-defined]
    return _FAILED if absent or missing else 0


def _say(text: str) -> None:
    print(f"shadow: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
