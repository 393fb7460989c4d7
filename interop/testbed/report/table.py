"""`python -m interop.testbed.report.table DIR...`: runs side by side, as a Markdown table."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

_HEADS = (
    "kind",
    "seed",
    "promises broken",
    "accepted",
    "delivered",
    "missing, no fault between",
    "repeats",
    "longest wait, s",
    "calm p50, ms",
    "calm p99, ms",
    "CPU, s",
)


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0, or 2 if a directory has no result."""
    parser = argparse.ArgumentParser(
        prog="python -m interop.testbed.report.table", description=__doc__
    )
    parser.add_argument("runs", type=Path, nargs="+", metavar="DIR", help="`--out` of a run")
    parser.add_argument("--json", action="store_true", help="the rows as JSON")
    args = parser.parse_args(arguments)
    try:
        found = sorted((read(run) for run in args.runs), key=lambda row: (row["kind"], row["seed"]))
    except (OSError, ValueError) as error:
        print(f"table: no result of a run: {error}", file=sys.stderr)
        return 2
    print(json.dumps(found, indent=1) if args.json else "\n".join(lines(found)))
    return 0


def read(run: Path) -> dict[str, Any]:
    """The row of the run in a directory. Raises OSError or ValueError without a result in it."""
    path = run / "result.json"
    try:
        result = json.loads(path.read_text())
        figures = result["figures"]
        return {
            "kind": "+".join(sorted(set(result["kinds"]))),
            "seed": result["seed"],
            "violations": dict(figures["violations"]),
            **{name: figures[name] for name in _FIGURES},
        }
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} isn't one: {error}") from error


_FIGURES = (
    "accepted",
    "deliveries",
    "missing",
    "missing_near",
    "repeats",
    "longest_wait",
    "calm_p50",
    "calm_p99",
    "cpu",
)


def lines(rows: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each run, after one for all of its kind: sums, medians of latencies, the longest
    wait of all."""
    text = ["| " + " | ".join(_HEADS) + " |", "|---" * len(_HEADS) + "|"]
    for kind in sorted({row["kind"] for row in rows}):
        these = [row for row in rows if row["kind"] == kind]
        text.append(_line(_all(these), f"**{len(these)} runs**"))
        text += [_line(row, str(row["seed"])) for row in these]
    return text


def _all(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    total: dict[str, Any] = {"kind": rows[0]["kind"], "violations": Counter()}
    for row in rows:
        total["violations"].update(row["violations"])
    for name in _FIGURES:
        values = [row[name] for row in rows]
        of = median if name.startswith("calm") else max if name == "longest_wait" else sum
        total[name] = of(values)
    return total


def _line(row: dict[str, Any], seed: str) -> str:
    broken = ", ".join(f"{count} {promise}" for promise, count in row["violations"].items())
    cells = (
        row["kind"],
        seed,
        broken or "0",
        f"{row['accepted']:,}",
        f"{row['deliveries']:,} of {row['deliveries'] + row['missing']:,}",
        f"{row['missing_near']:,}",
        f"{row['repeats']:,}",
        f"{row['longest_wait']:.1f}",
        f"{row['calm_p50']:,.0f}",
        f"{row['calm_p99']:,.0f}",
        f"{row['cpu']:,.0f}",
    )
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
