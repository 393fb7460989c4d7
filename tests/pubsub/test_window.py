"""Window updates of Yamux: few, and never less than was read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from libp2p.stream_muxer.yamux.yamux import DEFAULT_WINDOW_SIZE, MAX_WINDOW_SIZE, YamuxStream
from trio.testing import MockClock

from episub_router.util.receive_window import ReceiveWindow


class Reading:
    """A stream of Yamux whose peer sends as much as a test says."""

    def __init__(self) -> None:
        self.granted: list[int] = []
        self._arrived = bytearray()
        conn: Any = SimpleNamespace(rtt=lambda: 0.01, stream_buffers={1: self._arrived})
        self.stream = YamuxStream(1, conn, True)

        async def send_window_update(increment: int, skip_lock: bool = False) -> None:
            self.granted.append(increment)

        self.stream.send_window_update = send_window_update  # type: ignore[method-assign]
        over: Any = SimpleNamespace(muxed_stream=self.stream)
        self.window = ReceiveWindow(over)
        self.answered = False

    def arrive(self, count: int) -> None:
        self._arrived += bytes(count)
        self.stream.recv_window -= count
        assert self.stream.recv_window >= 0

    async def read(self, count: int, *, is_message: bool = False) -> None:
        """`count` bytes arrive, and are read."""
        self.arrive(count)
        assert len(await self.stream.read(65_536)) == count
        if is_message:
            self.answered = await self.window.answer()


@pytest.fixture
def reading() -> Reading:
    return Reading()


async def test_messages_within_a_second_have_one_update(
    reading: Reading, autojump_clock: MockClock
) -> None:
    for _ in range(20):
        await reading.read(100, is_message=True)
        await trio.sleep(0.11)
    assert reading.granted == [100, 1400]
    assert reading.stream.recv_window == DEFAULT_WINDOW_SIZE - 500


async def test_a_message_that_comes_rarely_is_answered_each_time(
    reading: Reading, autojump_clock: MockClock
) -> None:
    """The sender notices by it that it is read (`net/connections/silence.py`)."""
    for _ in range(5):
        await reading.read(100, is_message=True)
        await reading.read(50)
        await trio.sleep(2)
    assert reading.granted == [100] + [150] * 4


async def test_a_message_just_after_an_answer_is_answered_with_what_comes_next(
    reading: Reading, autojump_clock: MockClock
) -> None:
    await reading.read(100, is_message=True)
    assert reading.answered
    await trio.sleep(1)
    await reading.read(100, is_message=True)
    assert not reading.answered
    await trio.sleep(1)
    await reading.read(50)
    assert await reading.window.answer()
    assert reading.granted == [100, 150]


async def test_what_is_no_message_has_no_update_before_half_of_the_window(
    reading: Reading, autojump_clock: MockClock
) -> None:
    for _ in range(5):
        await reading.read(30_000)
        await trio.sleep(2)
    assert reading.granted == [150_000]


async def test_a_slow_reader_lets_a_sender_that_fills_the_window_go_on(
    reading: Reading, autojump_clock: MockClock
) -> None:
    """py-libp2p's writers give up after 5 s."""
    reading.arrive(DEFAULT_WINDOW_SIZE)
    for _ in range(10):
        await reading.stream.read(1000)
        await trio.sleep(1)
    assert reading.granted == [1000] + [2000] * 4


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
    stream: Any
    for stream in (SimpleNamespace(muxed_stream=object()), SimpleNamespace()):
        window = ReceiveWindow(stream)
        await window.wait()
        await window.answer()
