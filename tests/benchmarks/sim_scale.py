"""How fast the simulator is: the scenario `scale` at 1,000 and at 10,000 nodes.

    python -m tests.benchmarks.sim_scale [nodes ...] [--messages 100]

For each size: the time of the warm-up (60 simulated seconds, everybody joins) and of the messages
after it, events per second, peak memory, and how that compares with a loop over a
binary heap whose handlers are empty, measured in the same process with as many events queued.
"""

from __future__ import annotations

import argparse
import gc
import json
import resource
import sys
from collections.abc import Callable
from heapq import heappop, heappush
from time import process_time
from typing import Any

from episub_router.sim.records import Records
from episub_router.sim.scenario import loading
from episub_router.sim.simulation import Simulation


class HeapLoop:
    """The textbook loop: a heap of (time, sequence, action, argument)."""

    __slots__ = ("_heap", "_sequence", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._heap: list[tuple[float, int, Callable[[Any], None], Any]] = []
        self._sequence = 0

    def at(self, time: float, action: Callable[[Any], None], argument: Any) -> None:
        self._sequence += 1
        heappush(self._heap, (time, self._sequence, action, argument))

    def run(self, until: float) -> None:
        heap = self._heap
        while heap and heap[0][0] <= until:
            self.now, _, action, argument = heappop(heap)
            action(argument)


def heap_events_per_second(queued: int, events: int) -> float:
    """Throughput of such a loop with `queued` actions waiting at any time: each queues its own
    successor at a random delay, and does nothing else."""
    loop = HeapLoop()
    delays = [0.010 + 0.140 * ((i * 2_654_435_761) % 4096) / 4096 for i in range(8192)]
    left = events

    def act(index: int) -> None:
        nonlocal left
        left -= 1
        if left >= queued:
            loop.at(loop.now + delays[(left ^ index) & 8191], act, index)

    for index in range(queued):
        loop.at(delays[index & 8191], act, index)
    gc.collect()
    gc.disable()
    try:
        started = process_time()
        loop.run(1e9)
        return events / (process_time() - started)
    finally:
        gc.enable()


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
    empty = heap_events_per_second(nodes, max(500_000, 4 * nodes))
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
