"""`python -m interop.testbed.plans SCENARIO`: a scenario of test-plans in network namespaces."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from random import Random

from interop.plans import analysis, script
from interop.plans.node import ROUTERS
from interop.plans.scenarios import SCENARIOS
from interop.testbed.lab import linux, sandbox
from interop.testbed.lab.network import Network, address

_ROOT = Path(__file__).parents[2]
_SPARE = 60.0
"""Seconds that nodes may take beyond their script."""


def main(arguments: list[str]) -> int:
    """The exit status: 0 if all ran to their end, 1 if not, 2 if it couldn't be run."""
    parser = argparse.ArgumentParser(prog="python -m interop.testbed.plans", description=__doc__)
    add = parser.add_argument
    add("scenario", help=f"{', '.join(SCENARIOS)}, or a params.json")
    add("--nodes", type=int, default=10)
    add("--messages", type=int, default=16)
    add("--seed", type=int, default=1)
    add("--start", type=float, default=120.0, help="seconds until the first message")
    add("--pause", type=float, default=12.0, help="seconds between messages")
    add("--skip", type=int, default=4, help="messages that the analysis leaves out")
    add("--router", choices=ROUTERS, action="append", help="several take turns")
    add("--program", action="append", help="another implementation's node; takes turns, too")
    add("--out", type=Path, help="directory for the nodes' logs")
    args = parser.parse_args(arguments)
    out = (args.out or Path(tempfile.mkdtemp(prefix="plans-"))).absolute()
    out.mkdir(parents=True, exist_ok=True)
    params = out / "params.json"
    if args.scenario in SCENARIOS:
        rng = Random(args.seed)
        make = SCENARIOS[args.scenario]
        instructions = make(args.nodes, args.messages, rng, args.start, args.pause)
        params.write_text(script.as_json(instructions))
    else:
        shutil.copy(args.scenario, params)
        instructions = script.load(params)
    reason = sandbox.problem()
    if reason is not None:
        print(f"plans: no network of our own: {reason}", file=sys.stderr)
        return 2
    sandbox.enter()
    programs: list[list[str]] = [[str(Path(p).absolute())] for p in args.program or ()]
    for router in args.router or ([] if programs else ["episub"]):
        programs.append([sys.executable, "-m", "interop.plans.node", "--router", router])
    failed = _run(programs, args.nodes, instructions, params, out)
    logs = [(out / f"node{node}.stdout").read_text().splitlines() for node in range(args.nodes)]
    half = args.nodes // 2 - 1 if args.scenario == "simple-fanout" else None
    published = sum(_is_publish(instruction) for instruction in instructions) - args.skip
    for line in analysis.lines(analysis.analyse(logs, half, args.skip), published):
        print(line)
    for node, status in failed:
        print(f"plans: node{node} ended with status {status}", file=sys.stderr)
    print(f"plans: logs are in {out}")
    return 1 if failed else 0


def _run(
    programs: Sequence[Sequence[str]],
    nodes: int,
    instructions: Sequence[script.Instruction],
    params: Path,
    out: Path,
) -> list[tuple[int, int]]:
    """Run all nodes to their end; those that failed, with their statuses."""
    network = Network(nodes)
    names = out / "hosts"
    names.write_text(
        "127.0.0.1 localhost\n" + "".join(f"{address(n)} node{n}\n" for n in range(nodes))
    )
    linux.bind(str(names), "/etc/hosts")
    running = []
    for node in range(nodes):
        with (
            (out / f"node{node}.stdout").open("wb") as stdout,
            (out / f"node{node}.stderr").open("wb") as stderr,
        ):
            running.append(
                subprocess.Popen(
                    [*programs[node % len(programs)], "--params", str(params)],
                    stdout=stdout,
                    stderr=stderr,
                    stdin=subprocess.DEVNULL,
                    cwd=_ROOT,
                    preexec_fn=network.enter(node),
                )
            )
    ends = [step.elapsed for step in instructions if isinstance(step, script.WaitUntil)]
    failed = []
    for node, process in enumerate(running):
        try:
            status = process.wait(max(ends, default=0.0) + _SPARE)
        except subprocess.TimeoutExpired:
            process.kill()
            status = process.wait()
        if status:
            failed.append((node, status))
    return failed


def _is_publish(instruction: script.Instruction) -> bool:
    inner = (
        instruction.instruction if isinstance(instruction, script.IfNodeIdEquals) else instruction
    )
    return isinstance(inner, script.Publish)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
