"""What hostile members cost, a line for each attack: the scenario `hostile`, compact.

    python -m tests.benchmarks.hostile [--nodes N] [--seeds N] [--sources N] [VARIANT ...]

Figures are of honest nodes, means over the seeds; where seeds differ, losses are followed by their
range. A VARIANT is part of a name; without one, all variants run.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from episub_router.sim.results.report import mean_of
from episub_router.sim.runner import run
from episub_router.sim.scenario import loading

HEADING = (
    "variant", "phase", "lost, %", "p50, ms", "p99, ms", "payloads", "honest links",
    "hostile share", "over fair", "eclipsed", "for a minute", "at the end",
)  # fmt: skip
_WIDTHS = (48, 14, 24, 8, 8, 9, 13, 14, 10, 9, 13, 11)


def line(cells: Sequence[str]) -> str:
    """`cells` under the heading's columns."""
    first = [cell.ljust(width) for cell, width in zip(cells[:2], _WIDTHS[:2], strict=True)]
    others = [cell.rjust(width) for cell, width in zip(cells[2:], _WIDTHS[2:], strict=True)]
    return "".join(first + others)


def rows(variant: str, summaries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    """A row for each phase of `variant`, run with some seeds."""
    mean = mean_of(summaries)
    for index, phase in enumerate(mean["phases"]):
        lost = [100 * (1 - each["phases"][index]["reliability"]) for each in summaries]
        spread = f" ({min(lost):.3f}-{max(lost):.3f})" if max(lost) > min(lost) else ""
        latency, hostile = phase.get("latency", {}), phase.get("hostile", {})
        times = [latency.get(name) for name in ("p50", "p99")]
        yield (
            variant,
            phase["name"],
            f"{sum(lost) / len(lost):.3f}{spread}",
            *("-" if time is None else f"{1000 * time:,.0f}" for time in times),
            f"{phase['payloads_per_delivery']:.3f}",
            *(
                f"{hostile[name]:.{digits}f}" if name in hostile else "-"
                for name, digits in (
                    ("honest_links_mean", 2), ("hostile_share_of_links", 3),
                    ("hostile_share_over_fair", 2), ("eclipsed", 1), ("eclipsed_long", 1),
                    ("eclipsed_at_end", 1),
                )
            ),
        )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> None:
    """Run what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("variant", nargs="*", default=[""])
    parser.add_argument("--nodes", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--sources", type=int, default=5)
    parser.add_argument("--set", action="append", default=[])
    options = parser.parse_args(arguments)
    settings = {
        "network.nodes": options.nodes,
        "traffic.sources": options.sources,
        **loading.parse_settings(options.set),
    }
    seeds = range(options.seed, options.seed + options.seeds)
    print(line(HEADING), flush=True)
    chosen = loading.load("hostile").scenarios(settings, options.variant or [""])
    for variant, scenario in chosen.items():
        for row in rows(variant, [run(scenario, seed).summary for seed in seeds]):
            print(line(row), flush=True)


if __name__ == "__main__":
    main()
