"""How long iroh-gossip's own simulator takes for a like scenario, to be held beside `sim_scale`.

    python tests/benchmarks/iroh_simulator.py FOLDER [nodes] [--messages 100]

FOLDER holds iroh-gossip's source (https://github.com/n0-computer/iroh-gossip); cargo builds its
simulator there. All nodes join, then one publishes; a link has a latency of 10 to 150 ms. Two runs,
with one message and with so many more, tell the joining from the messages. CPU seconds.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import tempfile
from pathlib import Path

_FEATURES = ("--no-default-features", "--features", "simulator")


def cpu_seconds(folder: Path, nodes: int, messages: int) -> tuple[float, float, str]:
    """What one run took, in CPU seconds and MiB of the largest so far, and what it printed."""
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch, "scenario.toml")
        config.write_text(
            "seeds = [1]\n"
            'config.latency.dynamic = { min = "10ms", max = "150ms" }\n'
            f'[[scenario]]\nsim = "GossipSingle"\nnodes = {nodes}\nrounds = {messages}\n',
            encoding="utf-8",
        )
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        simulator = folder.resolve() / "target/release/sim"
        command = [str(simulator), "run", "--single-threaded", "-c", str(config)]
        done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, after.ru_maxrss / 1024, done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("nodes", nargs="?", type=int, default=10_000)
    parser.add_argument("--messages", type=int, default=100)
    args = parser.parse_args()
    subprocess.run(["cargo", "build", "--release", *_FEATURES], cwd=args.folder, check=True)
    joined, _, _ = cpu_seconds(args.folder, args.nodes, 1)
    seconds, memory, printed = cpu_seconds(args.folder, args.nodes, 1 + args.messages)
    print(printed.strip())
    print(
        f"{args.nodes:,} nodes: joining and one message {joined:.1f} s CPU; {args.messages} more "
        f"messages {seconds - joined:.1f} s CPU; {memory:,.0f} MiB"
    )


if __name__ == "__main__":
    main()
