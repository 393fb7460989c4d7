"""How fast the simulator is: the scenario `scale` at 1,000 and at 10,000 nodes.

    python tests/benchmarks/sim_scale.py [nodes ...]

For each size: the time of the warm-up (60 simulated seconds, everybody joins) and of the 100
messages after it, events per second, peak memory, and how that compares with a loop over a
binary heap whose handlers are empty, measured in the same process with as many events queued.
"""

from __future__ import annotations

import resource
import sys
from pathlib import Path
from time import perf_counter, process_time

from episub_router.sim.records import Records
from episub_router.sim.scenario import loading
from episub_router.sim.simulation import Simulation

sys.path.insert(0, str(Path(__file__).parent))
from event_queue import HeapLoop, events_per_second


def measure(nodes: int) -> tuple[float, float]:
    """Print one row; returns (seconds, CPU seconds) per event after the warm-up."""
    (scenario,) = loading.load("scale").scenarios({"network.nodes": nodes}).values()
    simulation = Simulation(scenario, 1, Records(scenario.capacity))
    marks = [(perf_counter(), process_time(), 0.0, 0)]
    simulation.run(lambda now, events: marks.append((perf_counter(), process_time(), now, events)))
    # The last mark before the first message; marks are a two-hundredth of the run apart.
    warm = max((mark for mark in marks if mark[2] <= scenario.traffic.start), key=lambda m: m[2])
    done = marks[-1]
    wall, cpu, events = done[0] - warm[0], done[1] - warm[1], done[3] - warm[3]
    delivered = sum(sum(t >= 0 for t in m.delivered) for m in simulation.records.messages)
    empty = events_per_second(HeapLoop(), nodes, max(500_000, 4 * nodes))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{nodes:>6,} nodes: warm-up {warm[0] - marks[0][0]:.1f} s ({warm[3]:,} events); "
        f"{len(simulation.records.messages)} messages {wall:.1f} s, {cpu:.1f} s CPU "
        f"({events:,} events, {events / wall:,.0f}/s, {empty / (events / wall):.1f}x an empty "
        f"heap loop's {empty / 1e6:.2f} M/s); {delivered:,} deliveries; {memory:,.0f} MiB"
    )
    return wall / events, cpu / events


def main() -> None:
    sizes = [int(word) for word in sys.argv[1:]] or [1_000, 10_000]
    costs = {nodes: measure(nodes) for nodes in sizes}
    first, last = costs[sizes[0]], costs[sizes[-1]]
    if len(sizes) > 1:
        print(
            f"time per event, {sizes[0]:,} to {sizes[-1]:,} nodes: {last[0] / first[0]:.2f}x "
            f"(CPU {last[1] / first[1]:.2f}x)"
        )


if __name__ == "__main__":
    main()
