"""Window updates of Yamux: few, and never less than was read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from libp2p.stream_muxer.yamux.yamux import DEFAULT_WINDOW_SIZE, MAX_WINDOW_SIZE, YamuxStream
from trio.testing import MockClock

from episub_router.pubsub.window import grant_rarely


class Reading:
    """A stream of Yamux whose peer sends as much as a test says."""

    def __init__(self) -> None:
        self.granted: list[int] = []
        self._arrived = 0

        async def read_stream(stream_id: int, n: int) -> bytes:
            return bytes(self._arrived)

        conn: Any = SimpleNamespace(read_stream=read_stream, rtt=lambda: 0.01)
        self.stream = YamuxStream(1, conn, True)

        async def send_window_update(increment: int, skip_lock: bool = False) -> None:
            self.granted.append(increment)

        self.stream.send_window_update = send_window_update  # type: ignore[method-assign]
        over: Any = SimpleNamespace(muxed_stream=self.stream)
        grant_rarely(over)

    async def read(self, count: int) -> None:
        """`count` bytes arrive, and are read."""
        self._arrived = count
        self.stream.recv_window -= count
        assert self.stream.recv_window >= 0
        assert len(await self.stream.read(65_536)) == count


@pytest.fixture
def reading() -> Reading:
    return Reading()


async def test_what_comes_within_a_second_has_one_update(
    reading: Reading, autojump_clock: MockClock
) -> None:
    for _ in range(20):
        await reading.read(100)
        await trio.sleep(0.11)
    assert reading.granted == [100, 1000]
    assert reading.stream.recv_window == DEFAULT_WINDOW_SIZE - 900


async def test_what_comes_rarely_is_answered_each_time(
    reading: Reading, autojump_clock: MockClock
) -> None:
    """The sender notices by it that it is read (`net/connections/silence.py`)."""
    for _ in range(5):
        await reading.read(100)
        await trio.sleep(2)
    assert reading.granted == [100] * 5


async def test_a_window_that_is_used_up_quickly_doubles_up_to_the_bound(
    reading: Reading, autojump_clock: MockClock
) -> None:
    for _ in range(1000):
        await reading.read(65_536)
    assert reading.stream.target_recv_window == MAX_WINDOW_SIZE
    assert MAX_WINDOW_SIZE // 2 <= reading.stream.recv_window <= MAX_WINDOW_SIZE
    assert len(reading.granted) < 100


async def test_a_window_that_is_used_up_slowly_stays(
    reading: Reading, autojump_clock: MockClock
) -> None:
    for _ in range(100):
        await reading.read(65_536)
        await trio.sleep(0.05)
    assert reading.stream.target_recv_window == DEFAULT_WINDOW_SIZE
    assert sum(reading.granted) >= 98 * 65_536


async def test_other_muxers_are_left_alone() -> None:
    stream: Any = SimpleNamespace(muxed_stream=object())
    grant_rarely(stream)
    grant_rarely(SimpleNamespace())  # type: ignore[arg-type]
