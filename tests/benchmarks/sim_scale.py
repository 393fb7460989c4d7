"""How fast the simulator is: the scenario `scale` at 1,000 and at 10,000 nodes.

    python -m tests.benchmarks.sim_scale [nodes ...] [--messages 100]

For each size: the time of the warm-up (60 simulated seconds, everybody joins) and of the messages
after it, events per second, peak memory, and how that compares with a loop over a
binary heap whose handlers are empty, measured in the same process with as many events queued.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from time import process_time

from episub_router.sim.records import Records
from episub_router.sim.scenario import loading
from episub_router.sim.simulation import Simulation
from tests.benchmarks.event_queue import HeapLoop, events_per_second


def peak_memory() -> float:
    """MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(nodes: int, messages: int) -> dict[str, float]:
    """One row, whose seconds are those of the CPU."""
    settings = {"network.nodes": nodes, "traffic.messages": messages}
    (scenario,) = loading.load("scale").scenarios(settings).values()
    simulation = Simulation(scenario, 1, Records(scenario.capacity))
    marks = [(process_time(), 0.0, 0)]
    peaks = [0.0]

    def mark(now: float, events: int) -> None:
        marks.append((process_time(), now, events))
        if now <= scenario.traffic.start:
            peaks.append(peak_memory())
        print(f"\r{nodes:,} nodes: {now:.0f} of {scenario.end:.0f} s", end="", file=sys.stderr)

    simulation.run(mark)
    print("\r", end="", file=sys.stderr)
    # The last mark before the first message; marks are a two-hundredth of the run apart.
    warm = max((mark for mark in marks if mark[1] <= scenario.traffic.start), key=lambda m: m[1])
    done = marks[-1]
    cpu, events = done[0] - warm[0], done[2] - warm[2]
    delivered = sum(sum(t >= 0 for t in m.delivered) for m in simulation.records.messages)
    empty = events_per_second(HeapLoop(), nodes, max(500_000, 4 * nodes))
    return {
        "nodes": nodes, "messages": messages, "warm_up_s": warm[0] - marks[0][0],
        "warm_up_mib": peaks[-1], "messages_s": cpu, "mib": peak_memory(), "events": events,
        "events_per_s": events / cpu, "of_empty_loop": empty / (events / cpu),
        "deliveries": delivered,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("nodes", nargs="*", type=int, default=[1_000, 10_000])
    parser.add_argument("--messages", type=int, default=100)
    args = parser.parse_args()
    for nodes in args.nodes:
        print(json.dumps(measure(nodes, args.messages)), flush=True)


if __name__ == "__main__":
    main()
