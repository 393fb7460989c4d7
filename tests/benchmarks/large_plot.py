"""Draw what large messages take, from summaries of the scenario `large`.

    episub sim run large --seed 1 --json > large.json
    python -m tests.benchmarks.large_plot large.json --out docs/results/large.svg

One picture for each latency model and question: time against size at 20 Mbit/s, and against the
uplink at 1 MB. Lines end at the median of the messages after the first, whiskers at the 99th
percentile. The dashed line is one copy over the uplink, without the way.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from episub_router.sim.results.plots import without_a_screen

NAME = re.compile(r"(?P<router>\w+)-(?P<latency>uniform|plane)-(?P<size>\d+[KM]B?)-(?P<uplink>\d+)")
SIZES = {"128K": 131_072, "1MB": 1_000_000, "8MB": 8_000_000}
SECONDS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)
LABELS = {
    "episub": "Episub, in pieces",
    "whole": "Episub, whole",
    "gossipsub": "gossipsub v1.1",
    "idontwant": "v1.2, IDONTWANT",
    "preamble": "v1.4 draft, PREAMBLE",
    "fragments": "v1.4 draft, fragments",
}
Times = dict[tuple[str, str], dict[tuple[int, int], tuple[float, float]]]
"""By router and latency model: p50 and p99 in seconds by size and uplink."""


def decoded(text: str) -> Iterator[dict[str, Any]]:
    """The JSON objects in `text`, one after the other."""
    decoder, at = json.JSONDecoder(), 0
    while (at := len(text) - len(text[at:].lstrip())) < len(text):
        found, at = decoder.raw_decode(text, at)
        yield found


def times(results: Iterable[dict[str, Any]]) -> Times:
    """What each variant took in its last phase, where its name says no more than its kind."""
    found: Times = {}
    for result in results:
        for run in result["runs"]:
            match = NAME.fullmatch(run["variant"])
            delivered = run["summary"]["messages"]["reliability"]
            if match is None or min(delivered) < 1.0:
                continue
            latency = run["summary"]["phases"][-1]["latency"]
            place = SIZES[match["size"]], int(match["uplink"])
            key = match["router"], match["latency"]
            found.setdefault(key, {})[place] = latency["p50"], latency["p99"]
    return found


def draw(found: Times, out: Path) -> None:
    pyplot = without_a_screen()
    models = sorted({latency for _, latency in found}, reverse=True)
    figure, grid = pyplot.subplots(
        len(models), 2, figsize=(10, 4 * len(models)), layout="constrained", squeeze=False
    )
    for row, latency in zip(grid, models, strict=True):
        for router, label in LABELS.items():
            points = found.get((router, latency), {})
            _line(row[0], label, {s / 1e6: t for (s, u), t in points.items() if u == 20})
            _line(row[1], label, {u: t for (s, u), t in points.items() if s == SIZES["1MB"]})
        sizes = [size / 1e6 for size in SIZES.values()]
        row[0].plot(sizes, [size * 8 / 20 for size in sizes], "k--", lw=1, label="one copy")
        row[1].plot([20, 50], [8 / 20, 8 / 50], "k--", lw=1, label="one copy")
        row[0].set(title=f"{latency}: uplinks of 20 Mbit/s", xlabel="size, MB (logarithmic)")
        row[1].set(title=f"{latency}: messages of 1 MB", xlabel="uplink, Mbit/s (logarithmic)")
        for axes, ticks in zip(row, (sizes, [20, 50]), strict=True):
            axes.set(xscale="log", yscale="log", ylabel="s, p50 to p99 (logarithmic)")
            axes.set_xticks(ticks, [f"{tick:.3g}" for tick in ticks], minor=False)
            axes.set_yticks(SECONDS, [f"{tick:g}" for tick in SECONDS], minor=False)
            axes.set_ylim(0.04, 12)
            axes.minorticks_off()
            axes.grid(alpha=0.3)
    grid[0][0].legend(fontsize="small")
    figure.savefig(out, metadata={"Date": None})
    pyplot.close(figure)


def _line(axes: Any, label: str, points: dict[float, tuple[float, float]]) -> None:
    if not points:
        return
    at = sorted(points)
    middle = [points[x][0] for x in at]
    above = [points[x][1] - points[x][0] for x in at]
    spread = [[0.0] * len(at), above]
    axes.errorbar(at, middle, yerr=spread, marker="o", ms=4, capsize=3, label=label)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("files", nargs="+", type=Path, help="output of `episub sim run --json`")
    parser.add_argument("--out", type=Path, default=Path("large.svg"))
    args = parser.parse_args()
    found = times(result for file in args.files for result in decoded(file.read_text()))
    if not found:
        sys.exit(f"{args.files[0]}: no variant of `large` that delivered everything")
    draw(found, args.out)
    print(args.out)


if __name__ == "__main__":
    main()
