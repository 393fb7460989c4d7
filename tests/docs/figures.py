"""Put the measured figures into the documents: `python -m tests.docs.figures [--write]`.

Without --write it names the pages that differ from docs/results. `tests.docs.marked` has the
places: blocks are tables of `tests.results.tables`, figures are "table / label / name".
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.docs.marked import fill
from tests.docs.snippets import ROOT, documents
from tests.results import overview
from tests.results.tables import OLDER, TABLES, figure


def rendered(text: str) -> str:
    """`text` with the tables and figures of the results that there are."""
    return fill(text, {"result": lambda name: TABLES[name].render()}, figure)


def pages() -> dict[Path, str]:
    """The pages and the picture that should be written otherwise, and how."""
    wanted = {path: rendered(path.read_text(encoding="utf-8")) for path in documents()}
    wanted[overview.PATH] = overview.draw()
    return {path: text for path, text in wanted.items() if not _says(path, text)}


def _says(path: Path, text: str) -> bool:
    """Whether a page has these figures. Which of them are older than the code is left out: a change
    of the code needn't touch the pages."""
    there = path.read_text(encoding="utf-8") if path.exists() else ""
    return there.replace(OLDER, "") == text.replace(OLDER, "")


def main() -> int:
    """The exit status: 1 where a page differs and isn't written."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true", help="write the pages and the picture")
    if parser.parse_args().write:
        for path in documents():
            text = path.read_text(encoding="utf-8")
            if (wanted := rendered(text)) != text:
                path.write_text(wanted, encoding="utf-8")
                print(path.relative_to(ROOT))
        overview.PATH.write_text(overview.draw(), encoding="utf-8")
        return 0
    stale = pages()
    for path in stale:
        print(f"{path.relative_to(ROOT)} differs from docs/results")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
