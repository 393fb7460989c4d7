"""The layout of the package: imports without cycles, names."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

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


def cycle(imports: dict[str, set[str]]) -> list[str]:
    """Modules that import each other in a cycle, the first one again at the end; or nothing."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        found: list[str] = error.args[1]
        return found
    return []


def test_no_two_public_classes_share_a_name() -> None:
    shared = {name: found for name, found in modules_by_public_class().items() if len(found) > 1}
    assert shared.keys() <= NAMES_UNDER_WAY, shared


def test_no_modules_import_each_other_in_a_cycle() -> None:
    """Imports for type checkers alone count, too."""
    graph = grimp.build_graph("episub_router", cache_dir=None)
    imports = {
        module: graph.find_modules_directly_imported_by(module) for module in sorted(graph.modules)
    }
    assert not cycle(imports)


@pytest.mark.parametrize(
    ("imports", "found"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, 0),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}}, 4),
        ({"a": {"b"}, "b": {"a"}}, 3),
    ],
)
def test_a_cycle_is_found(imports: dict[str, set[str]], found: int) -> None:
    assert len(cycle(imports)) == found
