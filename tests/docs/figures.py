"""Write what programs say into the documents: `python -m tests.docs.figures [--write]`.

Without --write it names the pages that differ. `tests.docs.marked` has the places: blocks are
tables of results, or of what the code says; figures are "table / label / name" of a result.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.docs import conformance, counters, docstrings, parameters, scenarios, suite, trace_schema
from tests.docs.marked import fill
from tests.docs.snippets import ROOT, documents
from tests.results import overview
from tests.results.tables import OLDER, TABLES, figure


def rendered(text: str) -> str:
    """`text` with its tables and figures made anew."""
    tables = {
        "result": lambda name: TABLES[name].render(),
        "parameters": parameters.table,
        "clauses": conformance.table,
        "counters": counters.table,
        "scenarios": scenarios.scenarios,
        "settings": scenarios.settings,
        "attacks": scenarios.attacks,
        "faults": scenarios.faults,
        "trace": trace_schema.table,
        "suite": suite.table,
        "layers": docstrings.layers,
        "modules": docstrings.modules,
        "events": docstrings.events,
    }
    return fill(text, tables, figure)


def pages(ignored: str = "") -> dict[Path, str]:
    """The pages and the pictures that should be written otherwise, and how. Where they differ in
    `ignored` alone, they needn't be."""
    wanted = {path: rendered(path.read_text(encoding="utf-8")) for path in documents()}
    wanted |= overview.pictures()
    there = {path: path.read_text(encoding="utf-8") if path.exists() else "" for path in wanted}
    return {
        path: text
        for path, text in wanted.items()
        if there[path].replace(ignored, "") != text.replace(ignored, "")
    }


def main() -> int:
    """The exit status: 1 where a page differs and isn't written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the pages and the pictures")
    write = parser.parse_args().write
    # Which results are older than the code changes with the code, and needn't change the pages.
    stale = pages("" if write else OLDER)
    for path, text in stale.items():
        print(f"{path.relative_to(ROOT)}{'' if write else ' differs'}")
        if write:
            path.write_text(text, encoding="utf-8")
    return 1 if stale and not write else 0


if __name__ == "__main__":
    sys.exit(main())
