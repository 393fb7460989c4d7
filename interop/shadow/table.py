"""`python -m interop.shadow.table DIR...`: runs side by side, as a Markdown table."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_HEADS = (
    "scenario",
    "nodes",
    "messages",
    "delivered",
    "p50, ms",
    "p99, ms",
    "to 99 %, ms",
    "shortest way p50 / p99, ms",
    "duplicates a node and message",
    "MB sent",
    "of payload",
    "wall; CPU, s",
)


def main(arguments: Sequence[str]) -> int:
    """The exit status: 0, or 2 if a directory has no result."""
    parser = argparse.ArgumentParser(prog="python -m interop.shadow.table", description=__doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="DIR", help="`--out` of a run")
    args = parser.parse_args(arguments)
    try:
        results = [json.loads((run / "result.json").read_text()) for run in args.runs]
        print("\n".join(lines(results)))
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"table: no result of a run: {error!r}", file=sys.stderr)
        return 2
    return 0


def lines(results: Sequence[dict[str, Any]]) -> list[str]:
    """A line for each size of messages of each run, and for each that the simulator had."""
    text = ["| " + " | ".join(_HEADS) + " |", "|---" * len(_HEADS) + "|"]
    for result in results:
        name = f"{result['name']}, seed {result['seed']}"
        nodes = f"{result['hosts']} {' + '.join(result['kinds'])}"
        for index, row in enumerate(result["rows"]):
            whole = {**row, **result["traffic"], **result["cost"]} if not index else row
            text.append(_line(name, nodes, whole))
        text += [_line(name, f"{result['hosts']} {row['of']}", row) for row in result["simulated"]]
    return text


def _line(name: str, nodes: str, row: dict[str, Any]) -> str:
    cells = (
        name,
        nodes,
        f"{row['messages']:,}" + (f" of {row['of']}" if row["of"].endswith(" B") else ""),
        f"{row['deliveries']:,} of {row['due']:,}",
        _number(row, "p50"),
        _number(row, "p99"),
        _number(row, "to_99"),
        f"{_number(row, 'direct_p50')} / {_number(row, 'direct_p99')}"
        if "direct_p50" in row
        else "",
        f"{row['duplicates']:.2f}",
        f"{row['bytes'] / 1e6:,.1f}" if "bytes" in row else "",
        f"{row['of_payload']:.2f}" if "of_payload" in row else "",
        f"{row['wall']:,.0f}; {row['cpu']:,.0f}" if "wall" in row else "",
    )
    return "| " + " | ".join(cells) + " |"


def _number(row: dict[str, Any], name: str) -> str:
    return f"{row[name]:,.0f}" if row.get(name) is not None else ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
