"""A publisher waits for the readers of its own subscriptions, while they read."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import ClassVar

import pytest
import trio
from libp2p.pubsub.floodsub import PROTOCOL_ID, FloodSub
from trio.testing import MockClock

from episub_router import PublishTimeout, PubsubDrop, PubsubParams, ResilientPubsub
from episub_router.util.bounded_channel import BoundedSender
from episub_router.util.own_readers import OwnReaders
from tests.hosts import running_nodes
from tests.pubsub.frames import TOPIC, flood


class Scene:
    """A subscription with room for eight messages and 80 bytes, of which each takes its number."""

    def __init__(self) -> None:
        self.send = BoundedSender[int](8, 80, size_of=lambda item: item)
        self.receive = self.send.receive
        self.readers = OwnReaders({"t": self.send})

    def put(self, count: int) -> None:
        for number in range(count):
            self.send.send_nowait(number)


async def test_half_a_buffer_is_no_reason_to_wait(autojump_clock: MockClock) -> None:
    scene = Scene()
    scene.put(4)
    await scene.readers.wait(["t", "not subscribed"])
    assert trio.current_time() == 0


async def test_half_of_the_bytes_is_as_half_of_the_messages(autojump_clock: MockClock) -> None:
    scene = Scene()
    scene.send.send_nowait(40)
    await scene.readers.wait(["t"])
    assert trio.current_time() == 0
    scene.send.send_nowait(1)
    await scene.readers.wait(["t"])
    assert trio.current_time() == pytest.approx(1.0, abs=0.05)


async def test_a_reader_that_takes_messages_is_waited_for(autojump_clock: MockClock) -> None:
    scene = Scene()
    scene.put(8)

    async def read() -> None:
        for _ in range(4):
            await trio.sleep(0.9)
            await scene.receive.receive()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await scene.readers.wait(["t"])
        assert 3.6 <= trio.current_time() <= 3.7
        assert scene.send.waiting() == 4


async def test_a_reader_that_takes_nothing_is_waited_for_once(autojump_clock: MockClock) -> None:
    scene = Scene()
    scene.put(6)
    await scene.readers.wait(["t"])
    assert trio.current_time() == pytest.approx(1.0, abs=0.05)
    scene.put(2)
    given_up = trio.current_time()
    await scene.readers.wait(["t"])
    assert trio.current_time() == given_up


async def test_one_that_has_caught_up_is_waited_for_again(autojump_clock: MockClock) -> None:
    """And not before: a task that reads and publishes can't read while it waits."""
    scene = Scene()
    scene.put(8)
    await scene.readers.wait(["t"])
    before = trio.current_time()
    for _ in range(4):
        await scene.receive.receive()
        await scene.readers.wait(["t"])
    assert trio.current_time() == before
    scene.put(4)
    with trio.move_on_after(0.5):
        await scene.readers.wait(["t"])
    assert trio.current_time() == before + 0.5


async def test_a_slow_reader_is_waited_for_ten_seconds_in_all(autojump_clock: MockClock) -> None:
    send = BoundedSender[int](64, math.inf, size_of=lambda item: 1)
    for number in range(64):
        send.send_nowait(number)
    readers = OwnReaders({"t": send})

    async def read() -> None:
        while True:
            await trio.sleep(0.9)
            await send.receive.receive()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        await readers.wait(["t"])
        assert trio.current_time() == pytest.approx(10, abs=0.05)
        await readers.wait(["t"])
        assert trio.current_time() == pytest.approx(10, abs=0.05)
        nursery.cancel_scope.cancel()


async def test_a_topic_without_bound_is_never_waited_for(autojump_clock: MockClock) -> None:
    send = BoundedSender[int](math.inf, math.inf, size_of=lambda item: 1)
    for number in range(5_000):
        send.send_nowait(number)
    await OwnReaders({"t": send}).wait(["t"])
    assert trio.current_time() == 0


@pytest.mark.hosts
async def test_readers_and_room_share_the_time_out() -> None:
    class Gate:
        timeouts: ClassVar[list[float | None]] = []

        @asynccontextmanager
        async def room_to_publish(
            self,
            topics: Sequence[str],
            size: int,
            timeout: float | None,  # noqa: ASYNC109
        ) -> AsyncIterator[None]:
            self.timeouts.append(timeout)
            if len(self.timeouts) > 2:
                raise PublishTimeout("no room")
            yield

    class GatedFloodSub(Gate, FloodSub): ...

    options = {"params": PubsubParams(subscription_buffer=2)}
    async with running_nodes(
        1,
        router=lambda: GatedFloodSub([PROTOCOL_ID]),
        pubsub_class=ResilientPubsub,
        pubsub_options=options,
    ) as (node,):
        assert isinstance(node.pubsub, ResilientPubsub)
        await node.pubsub.subscribe(TOPIC)
        for number in range(2):
            await node.pubsub.publish(TOPIC, bytes([number]), timeout=0.3)
        with pytest.raises(PublishTimeout, match=r"no room; waited (0\.[3-9]|[1-9])"):
            await node.pubsub.publish(TOPIC, bytes([2]), timeout=0.3)
    first, _, third = Gate.timeouts
    assert first is not None
    assert 0.2 < first <= 0.3
    assert third is not None
    assert 0 < third < 0.1


@pytest.mark.hosts
async def test_a_burst_loses_nothing_to_the_publisher_s_own_reader() -> None:
    """It gets its turn less often than the publisher."""
    options = {"params": PubsubParams(subscription_buffer=16)}
    async with running_nodes(
        1, router=flood, pubsub_class=ResilientPubsub, pubsub_options=options
    ) as (node,):
        assert isinstance(node.pubsub, ResilientPubsub)
        subscription = await node.pubsub.subscribe(TOPIC)
        received: list[bytes] = []

        async def read() -> None:
            while len(received) < 100:
                received.append((await subscription.get()).data)
                for _ in range(10):
                    await trio.lowlevel.checkpoint()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read)
            for number in range(100):
                await node.pubsub.publish(TOPIC, bytes([number]))
        assert received == [bytes([number]) for number in range(100)]
        assert not node.pubsub.drops[PubsubDrop.SUBSCRIBER_SLOW]
