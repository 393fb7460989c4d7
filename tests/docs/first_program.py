"""Prints the README's first program, to be run where the package is installed as users do it."""

from __future__ import annotations

from tests.docs.snippets import ROOT, snippets

if __name__ == "__main__":
    print(next(s.text for s in snippets(ROOT / "README.md") if s.language == "python"))
