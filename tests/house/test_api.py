"""The public API: what it is, that it is documented, and that nobody's program breaks unnoticed."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

import pytest

pytest.importorskip("griffe")

from tests.house import api


@pytest.fixture(scope="module")
def today() -> Mapping[str, str]:
    return api.stubs()


@pytest.mark.parametrize("module", api.MODULES)
def test_what_is_exported_is_documented(module: str) -> None:
    exported = import_module(module).__all__
    assert set(exported) == api.listed()[module].keys()
    undocumented = [
        name for name in exported if not getattr(getattr(import_module(module), name), "__doc__", 1)
    ]
    assert not undocumented


@pytest.mark.parametrize("module", api.MODULES)
def test_nothing_breaks_since_the_last_release(module: str, today: Mapping[str, str]) -> None:
    broken = api.breakages(api.kept()[module], today[module], module)
    assert not broken, (
        "programs of users break. Deprecate first (docs/api.md), or, before 1.0.0 or with a major "
        "version, run python -m tests.house.api --write and say so in the changelog"
    )


OLD = """
class Handle(Base):
    async def publish(self, data: bytes, *, timeout: float = ...) -> None: ...
    topic: str

def open(topic: str, history: bool = ...) -> Handle: ...
"""


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ("", "", ""),
        ("history: bool = ...", "history: bool = ..., more: int = ...", ""),
        ("history: bool = ...", "history: bool", "history"),
        (", *, timeout: float = ...", "", "timeout"),
        ("    topic: str\n", "", "topic"),
        ("def open(topic: str", "def open(name: str", "topic"),
        ("(Base)", "", "Handle"),
    ],
)
def test_what_breaks_programs_is_found(before: str, after: str, found: str) -> None:
    broken = api.breakages(OLD, OLD.replace(before, after))
    assert bool(broken) == bool(found)
    assert not found or found in broken[0]


def test_a_stub_has_what_a_user_sees(today: Mapping[str, str]) -> None:
    assert (
        "async def joined(self, topic: str, timeout: float = ...) -> None: ..."
        in today["episub_router"]
    )
    assert "_" not in {line.split()[0][0] for line in today["episub_router"].splitlines() if line}
