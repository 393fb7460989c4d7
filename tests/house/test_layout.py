"""The layout of the package: imports without cycles, names."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp

import episub_router

PACKAGE = Path(episub_router.__file__).parent
NAMES_UNDER_WAY: set[str] = {"NeighborDown", "NeighborUp", "Topic"}
"""Names of public classes that two modules still have: effects of the core, and the events that
applications get of them; a message's topic and a topic's machine."""


def sources() -> Iterator[Path]:
    """The files of the package that somebody wrote."""
    return (path for path in sorted(PACKAGE.rglob("*.py")) if not path.stem.endswith("_pb2"))


def modules_by_public_class() -> dict[str, list[str]]:
    modules: dict[str, list[str]] = defaultdict(list)
    for path in sources():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(path.relative_to(PACKAGE).as_posix())
    return modules


def test_no_two_public_classes_share_a_name() -> None:
    shared = {name: found for name, found in modules_by_public_class().items() if len(found) > 1}
    assert shared.keys() <= NAMES_UNDER_WAY, shared


def test_no_modules_import_each_other_in_a_cycle() -> None:
    """Imports for type checkers alone count, too."""
    graph = grimp.build_graph("episub_router", cache_dir=None)
    imports = {
        module: graph.find_modules_directly_imported_by(module) for module in sorted(graph.modules)
    }
    TopologicalSorter(imports).prepare()  # CycleError names them.
