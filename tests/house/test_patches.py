"""Tests replace nothing private: a test that does says little about what users see."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TESTS = Path(__file__).parents[1]

FOREIGN = {"_bytes", "_create", "_real_clock"}
"""Attributes of other projects' objects, where nothing public does it."""


def replaced(tree: ast.AST) -> Iterator[str]:
    """Names of the attributes that a module replaces in other objects than `self`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            for target in (part for whole in node.targets for part in ast.walk(whole)):
                if isinstance(target, ast.Attribute) and isinstance(target.ctx, ast.Store):
                    owner = target.value
                    if not (isinstance(owner, ast.Name) and owner.id == "self"):
                        yield target.attr
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr not in ("setattr", "delattr", "patch", "object"):
                continue
            for argument in node.args[:2]:
                if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                    yield argument.value.rsplit(".", 1)[-1]


def test_no_test_replaces_what_is_private() -> None:
    found = {
        path.relative_to(TESTS).as_posix()
        for path in sorted(TESTS.rglob("test_*.py"))
        for name in replaced(ast.parse(path.read_text(encoding="utf-8")))
        if name.startswith("_") and not name.startswith("__") and name not in FOREIGN
    }
    assert not found


def test_replacements_are_found() -> None:
    code = "a._b = 1\nself._c = 1\nmonkeypatch.setattr(d, '_e', 1)\nmocker.patch('f.g._h')\n"
    assert sorted(replaced(ast.parse(code))) == ["_b", "_e", "_h"]
