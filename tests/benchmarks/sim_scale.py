"""How fast the simulator is: the scenario `scale` at 1,000 and at 10,000 nodes.

    python -m tests.benchmarks.sim_scale [nodes ...] [--messages 100] [--json]

For each size: the time of the warm-up (60 simulated seconds, everybody joins) and of the messages
after it, events per second, peak memory, and how that compares with a loop over a
binary heap whose handlers are empty, measured in the same process with as many events queued.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
from time import perf_counter, process_time

from episub_router.sim.records import Records
from episub_router.sim.scenario import loading
from episub_router.sim.simulation import Simulation
from tests.benchmarks.event_queue import HeapLoop, events_per_second


def peak_memory() -> float:
    """MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(nodes: int, messages: int, as_json: bool) -> tuple[float, float]:
    """Print one row; returns (seconds, CPU seconds) per event after the warm-up."""
    settings = {"network.nodes": nodes, "traffic.messages": messages}
    (scenario,) = loading.load("scale").scenarios(settings).values()
    simulation = Simulation(scenario, 1, Records(scenario.capacity))
    marks = [(perf_counter(), process_time(), 0.0, 0)]
    peaks = [0.0]

    def mark(now: float, events: int) -> None:
        marks.append((perf_counter(), process_time(), now, events))
        if now <= scenario.traffic.start:
            peaks.append(peak_memory())
        print(f"\r{nodes:,} nodes: {now:.0f} of {scenario.end:.0f} s", end="", file=sys.stderr)

    simulation.run(mark)
    print("\r", end="", file=sys.stderr)
    # The last mark before the first message; marks are a two-hundredth of the run apart.
    warm = max((mark for mark in marks if mark[2] <= scenario.traffic.start), key=lambda m: m[2])
    done = marks[-1]
    wall, cpu, events = done[0] - warm[0], done[1] - warm[1], done[3] - warm[3]
    delivered = sum(sum(t >= 0 for t in m.delivered) for m in simulation.records.messages)
    empty = events_per_second(HeapLoop(), nodes, max(500_000, 4 * nodes))
    memory, warm_memory = peak_memory(), peaks[-1]
    if as_json:
        row = {
            "nodes": nodes, "messages": messages, "warm_up_s": warm[1] - marks[0][1],
            "warm_up_mib": warm_memory, "messages_s": cpu, "mib": memory, "events": events,
            "events_per_s": events / cpu, "of_empty_loop": empty / (events / cpu),
            "deliveries": delivered,
        }  # fmt: skip
        print(json.dumps(row), flush=True)
        return wall / events, cpu / events
    print(
        f"{nodes:>6,} nodes: warm-up {warm[0] - marks[0][0]:.1f} s, {warm[1] - marks[0][1]:.1f} s "
        f"CPU ({warm[3]:,} events), {warm_memory:,.0f} MiB; "
        f"{len(simulation.records.messages)} messages {wall:.1f} s, {cpu:.1f} s CPU "
        f"({events:,} events, {events / wall:,.0f}/s, {empty / (events / wall):.1f}x an empty "
        f"heap loop's {empty / 1e6:.2f} M/s); {delivered:,} deliveries; {memory:,.0f} MiB"
    )
    return wall / events, cpu / events


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("nodes", nargs="*", type=int, default=[1_000, 10_000])
    parser.add_argument("--messages", type=int, default=100)
    parser.add_argument("--json", action="store_true", help="a line of JSON for each size")
    args = parser.parse_args()
    sizes = args.nodes
    costs = {nodes: measure(nodes, args.messages, args.json) for nodes in sizes}
    first, last = costs[sizes[0]], costs[sizes[-1]]
    if len(sizes) > 1 and not args.json:
        print(
            f"time per event, {sizes[0]:,} to {sizes[-1]:,} nodes: {last[0] / first[0]:.2f}x "
            f"(CPU {last[1] / first[1]:.2f}x)"
        )


if __name__ == "__main__":
    main()
