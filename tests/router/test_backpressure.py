"""A publisher that is faster than a neighbour waits for it, and loses nothing in silence."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from libp2p.pubsub.rpc_queue import OutBoundQueueSize

from episub_router import (
    BacklogFull,
    PublishError,
    PublishTimeout,
    ResilientPubsub,
    RouterParams,
)
from episub_router.net.counters import Reason
from episub_router.net.publish_room import PUBLISH_WINDOW
from tests.hosts import Node, eventually
from tests.router.overlays import TOPIC, count, overlay_of, reading, record

pytestmark = pytest.mark.hosts


class Closable:
    """A stream that takes nothing while it is closed, and then goes on."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self.open = trio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    async def write(self, data: bytes) -> None:
        await self.open.wait()
        await self._stream.write(data)


@asynccontextmanager
async def one_that_takes_nothing(
    router_params: RouterParams | None = None,
) -> AsyncIterator[tuple[Node, Node, Any]]:
    """Two nodes; what the first sends to the second waits until the stream is opened."""
    streams: list[Closable] = []

    class SlowPubsub(ResilientPubsub):
        async def handle_sending_messages(self, peer_id: Any, stream: Any, queue: Any) -> None:
            streams.append(Closable(stream))
            streams[-1].open.set()
            await super().handle_sending_messages(peer_id, streams[-1], queue)

    async with overlay_of(2, pubsub_class=SlowPubsub, router_params=router_params) as (
        nodes,
        _,
    ):
        mine = next(s for s in streams if s.muxed_conn.peer_id == nodes[1].id)
        mine.open = trio.Event()
        yield nodes[0], nodes[1], mine


PATIENT = RouterParams(stall_timeout=120.0)
"""The peer that takes nothing isn't given up during a test."""


async def publish_without_end(publish: Any, **options: Any) -> None:
    """0, 1, 2 and so on, until it is refused; the error's note says how many went."""
    published = 0
    try:
        while True:
            await publish(TOPIC, b"%d" % published, **options)
            published += 1
    except PublishError as error:
        error.add_note(str(published))
        raise


async def test_publish_nowait_refuses_when_the_neighbour_is_behind() -> None:
    async with one_that_takes_nothing(PATIENT) as (publisher, _, stream):
        pubsub = publisher.pubsub
        assert isinstance(pubsub, ResilientPubsub)
        with pytest.raises(BacklogFull, match="64 messages wait for 12D3") as refused:
            await publish_without_end(pubsub.publish_nowait)
        published = int(refused.value.__notes__[0])
        assert PUBLISH_WINDOW < published <= PUBLISH_WINDOW + OutBoundQueueSize + 1
        assert count(publisher, Reason.BACKLOG_FULL) == 0
        stream.open.set()


async def test_publish_waits_for_room_and_then_goes_on() -> None:
    async with one_that_takes_nothing(PATIENT) as (publisher, receiver, stream):
        done = trio.Event()

        async def burst() -> None:
            for number in range(300):
                await publisher.pubsub.publish(TOPIC, b"%d" % number)
            done.set()

        async with (
            reading([await receiver.pubsub.subscribe(TOPIC)]) as readers,
            trio.open_nursery() as nursery,
        ):
            nursery.start_soon(burst)
            await eventually(lambda: len(record(publisher, receiver).backlog) >= PUBLISH_WINDOW)
            assert not done.is_set()
            stream.open.set()
            await done.wait()
            await readers.all_have([b"%d" % number for number in range(300)])
            assert count(publisher, Reason.BACKLOG_FULL) == 0


async def test_the_log_says_who_holds_up_publishing(caplog: pytest.LogCaptureFixture) -> None:
    async with one_that_takes_nothing(PATIENT) as (publisher, receiver, stream):
        with (
            caplog.at_level(logging.INFO, "episub_router.net.publish_room"),
            pytest.raises(PublishTimeout),
        ):
            await publish_without_end(publisher.pubsub.publish, timeout=1.5)
        [line] = [each.getMessage() for each in caplog.records if "held up" in each.getMessage()]
        assert f"messages wait for {receiver.id}" in line
        stream.open.set()


async def test_waiting_ends_with_an_error_of_its_own_and_nothing_is_delivered() -> None:
    async with one_that_takes_nothing(PATIENT) as (publisher, _, stream):
        pubsub: Any = publisher.pubsub
        mine = await pubsub.subscribe(TOPIC)
        with pytest.raises(PublishTimeout, match=r"6[4-9] messages .* waited [\d.]+ s") as refused:
            await publish_without_end(pubsub.publish, timeout=0.2)
        for number in range(int(refused.value.__notes__[0])):
            assert (await mine.get()).data == b"%d" % number
        with trio.move_on_after(0.05) as waiting:
            await mine.get()
        assert waiting.cancelled_caught
        stream.open.set()


async def test_a_neighbour_is_no_further_behind_than_its_window() -> None:
    """Its list says how far it has read; what Yamux holds for it is seen by nobody."""
    async with (
        overlay_of(2, pubsub_class=ResilientPubsub) as ((publisher, receiver), _),
        reading([await receiver.pubsub.subscribe(TOPIC)]) as readers,
    ):
        window = record(publisher, receiver).send_window
        payloads = [b"%d" % number + bytes(1000) for number in range(1500)]
        for payload in payloads:
            await publisher.pubsub.publish(TOPIC, payload)
            assert window.behind <= window.size
        await readers.all_have(payloads)
        assert window.behind < sum(map(len, payloads))


async def test_a_neighbour_that_takes_nothing_at_all_is_not_waited_for() -> None:
    params = RouterParams(stall_timeout=2.0)
    async with one_that_takes_nothing(params) as (publisher, receiver, stream):
        with trio.fail_after(60):
            for number in range(3 * PUBLISH_WINDOW):
                await publisher.pubsub.publish(TOPIC, b"%d" % number)
        assert record(publisher, receiver).stalled or count(publisher, Reason.PEER_STALLED)
        stream.open.set()
