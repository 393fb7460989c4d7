"""Tests that measure time have the machine for themselves, and get it."""

from __future__ import annotations

from pathlib import Path

import trio

from interop.harness.machine import machine


async def test_a_test_that_wants_to_be_alone_is_alone_and_not_passed(tmp_path: Path) -> None:
    names = ("first", "second", "alone", "late")
    order: list[str] = []
    comes = {name: trio.Event() for name in names}
    leaves = {name: trio.Event() for name in names}

    async def use(name: str) -> None:
        async with machine(tmp_path, alone=name == "alone"):
            order.append(name)
            comes[name].set()
            await leaves[name].wait()

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(use, name)
                with trio.move_on_after(0.1 if name in ("alone", "late") else 60):
                    await comes[name].wait()
            assert order == ["first", "second"]
            leaves["first"].set()
            leaves["second"].set()
            await comes["alone"].wait()
            with trio.move_on_after(0.1):
                await comes["late"].wait()
            assert order == ["first", "second", "alone"]
            leaves["alone"].set()
            leaves["late"].set()
    assert order[-1] == "late"
