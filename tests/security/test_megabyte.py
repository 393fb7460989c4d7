"""1 MB from one hostile member costs at most 1 s of CPU, 0.1 s of it at a stretch, and 32 MiB, and
nobody's messages."""

from __future__ import annotations

import gc
import sys
from pathlib import Path
from time import thread_time

import pytest
import trio

from episub_router import ResilientPubsub
from tests.hosts import receive
from tests.router.overlays import overlay_of, parts
from tests.security.megabytes import KINDS, TOPIC, UNFINISHED, megabyte
from tests.security.streams import suffer

pytestmark = [pytest.mark.hosts, pytest.mark.slow]

MOST_CPU = 1.0
LONGEST_STALL = 0.1
MOST_MEMORY = 32 * 2**20


@pytest.mark.parametrize("kind", [*KINDS, "unfinished"])
async def test_a_megabyte(kind: str) -> None:
    data = UNFINISHED if kind == "unfinished" else megabyte(kind)
    async with overlay_of(3, pubsub_class=ResilientPubsub) as (nodes, subscriptions):
        hostile, victim, honest = nodes
        # A collection would go through all that other tests have left in this process.
        gc.disable()
        before = thread_time()
        steps = Steps()
        trio.lowlevel.add_instrument(steps)
        try:
            await suffer(victim, hostile.id, data)
        finally:
            trio.lowlevel.remove_instrument(steps)
            gc.enable()
        spent = thread_time() - before
        print(
            f"{kind}: {len(data):,} bytes, {spent:.2f} s of CPU, {steps.longest:.3f} at a stretch, "
            f"{dict(victim.pubsub.drops)}"  # type: ignore[attr-defined]
        )
        for n in range(5):
            await honest.pubsub.publish(TOPIC, b"%d" % n)
            assert [msg.data for msg in await receive(subscriptions[1])] == [b"%d" % n]
        assert spent <= MOST_CPU
        assert steps.longest <= LONGEST_STALL
        assert parts(victim).counts().get("error", 0) == 0


class Steps(trio.abc.Instrument):
    """How long one task keeps the others waiting, in seconds of CPU."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._began = thread_time()

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.longest = max(self.longest, thread_time() - self._began)


def resident(name: str) -> int:
    """Memory of this process, in bytes; protobuf's isn't Python's."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if name in line) * 1024


def fresh_peak() -> int:
    """The memory that is in use, and where "VmHWM" begins anew."""
    Path("/proc/self/clear_refs").write_text("5")
    return resident("VmRSS")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    "kind", ["empty messages", "many bad signatures", "announcements", "unfinished"]
)
async def test_the_memory_that_it_takes(kind: str) -> None:
    data = UNFINISHED if kind == "unfinished" else megabyte(kind)
    async with overlay_of(2, pubsub_class=ResilientPubsub) as (nodes, _):
        hostile, victim = nodes
        before = fresh_peak()
        await suffer(victim, hostile.id, data)
        peak = resident("VmHWM") - before
        print(f"{kind}: {peak:,} bytes")
        assert peak <= MOST_MEMORY
