"""Large pages for the memory of large runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from episub_router.sim import huge_pages
from episub_router.sim.huge_pages import HugePages, resident

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux's madvise")


def large_pages() -> int:
    """Bytes of this process in large pages."""
    rollup = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    (line,) = [line for line in rollup if line.startswith("AnonHugePages:")]
    return int(line.split()[1]) * 1024


def test_memory_comes_to_lie_in_large_pages_once_there_is_much(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(huge_pages, "WORTHWHILE", 8 << 20)
    pages = HugePages()
    before = large_pages()
    small = bytes(range(256)) * (4 << 10)
    pages.follow()
    assert large_pages() == before
    # As Python's own memory: many blocks of a megabyte or less.
    large = [bytes([index]) * (1 << 20) for index in range(1, 65)]
    pages.ask()
    if large_pages() == before:
        pytest.skip("this kernel gives no large pages")
    assert large_pages() >= before + (16 << 20)
    assert all(block == bytes([index]) * (1 << 20) for index, block in enumerate(large, 1))
    assert small == bytes(range(256)) * (4 << 10)


def test_growth_is_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(huge_pages, "resident", lambda: size)
    monkeypatch.setattr(HugePages, "ask", lambda self: asked.append(size))
    size = 100 << 20
    pages = HugePages()
    for megabytes in (120, 163, 164, 200, 227, 228, 400):
        size = megabytes << 20
        pages.follow()
    assert [size >> 20 for size in asked] == [164, 228, 400]


def test_resident_memory_is_known() -> None:
    before = resident()
    block = bytes(1) * (32 << 20)
    assert resident() >= before + len(block) // 2
