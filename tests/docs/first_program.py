"""The README's first program, to be run where the package is installed as users do it: prints it.
With a folder, writes it there beside other programs that are to be typed."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.docs.moved import TYPED
from tests.docs.snippets import ROOT, snippets

if __name__ == "__main__":
    first = next(s.text for s in snippets(ROOT / "README.md") if s.language == "python")
    if not sys.argv[1:]:
        print(first)
    for folder in map(Path, sys.argv[1:]):
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in {"first_program": first, **TYPED}.items():
            (folder / f"{name}.py").write_text(text)
