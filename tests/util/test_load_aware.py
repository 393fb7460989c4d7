"""Time-outs while the event loop is slow."""

from __future__ import annotations

import time

import pytest
import trio
import trio.testing

from episub_router.util.load_aware import load_aware


async def test_time_passes_as_usual_where_the_loop_is_not_slow(
    autojump_clock: trio.testing.MockClock,
) -> None:
    start = trio.current_time()
    async with load_aware(5.0) as pace:
        await trio.sleep_forever()
    assert trio.current_time() - start == pytest.approx(5.0)
    assert not pace.is_slow


async def test_slow_turns_count_for_less(nursery: trio.Nursery) -> None:
    """What takes 40 turns isn't cut off because somebody else makes them slow."""
    arrived = trio.Event()

    async def turns() -> None:
        for _ in range(40):
            time.sleep(0.1)  # noqa: ASYNC251  # somebody's computation
            await trio.lowlevel.checkpoint()
        arrived.set()

    nursery.start_soon(turns)
    # A worker that waits for a core for longer than what is left between two looks ends it.
    async with load_aware(2.0) as pace:
        await arrived.wait()
    assert arrived.is_set()
    assert pace.is_slow


async def test_a_time_out_is_not_stretched_for_ever(nursery: trio.Nursery) -> None:
    over = trio.Event()

    async def turns() -> None:
        while not over.is_set():
            time.sleep(0.1)  # noqa: ASYNC251  # somebody's computation
            await trio.lowlevel.checkpoint()

    nursery.start_soon(turns)
    async with load_aware(0.3):
        await trio.sleep_forever()
    over.set()


async def test_a_block_that_ends_in_time_goes_on_at_once(
    autojump_clock: trio.testing.MockClock,
) -> None:
    start = trio.current_time()
    async with load_aware(5.0):
        await trio.sleep(1)
    assert trio.current_time() - start == pytest.approx(1)


async def test_errors_of_the_block_come_out_as_they_are(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with pytest.raises(ValueError, match="broken"):
        async with load_aware(5.0):
            raise ValueError("broken")


async def test_an_error_while_it_is_cancelled_from_outside_makes_no_group(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """A group of the error and the cancellation would pass every `except Exception`."""
    with trio.move_on_after(1) as outer:
        async with load_aware(5.0):
            try:
                await trio.sleep_forever()
            finally:
                raise RuntimeError("while cleaning up")
    assert outer.cancelled_caught
