"""A message that is published before the node has a link waits for the first one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from episub_router import EpisubRouter, ResilientPubsub
from tests.hosts import bounded_gossipsub, connect, receive, running_nodes

pytestmark = pytest.mark.hosts

TOPIC = "news"


@contextmanager
def busy(threads: int) -> Iterator[None]:
    """Take the interpreter from the event loop, as other work in the process would."""
    ended = threading.Event()

    def spin() -> None:
        while not ended.is_set():
            sum(range(1000))

    every = [threading.Thread(target=spin) for _ in range(threads)]
    for thread in every:
        thread.start()
    try:
        yield
    finally:
        ended.set()
        for thread in every:
            thread.join()


@pytest.mark.parametrize("connected_first", [True, False])
@pytest.mark.parametrize("other_kind", ["episub", "gossipsub"])
@pytest.mark.parametrize("load", [0, 4])
async def test_it_goes_out_when_the_first_link_stands(
    other_kind: str, connected_first: bool, load: int
) -> None:
    make = EpisubRouter if other_kind == "episub" else bounded_gossipsub
    async with (
        running_nodes(1, router=make) as [other],
        running_nodes(1, router=EpisubRouter, pubsub_class=ResilientPubsub, seed=1) as [node],
    ):
        subscription = await other.pubsub.subscribe(TOPIC)
        if connected_first:
            await connect(node, other)
            await node.pubsub.wait_for_subscription(other.id, TOPIC)
        with busy(load):
            await node.pubsub.subscribe(TOPIC)
            await node.pubsub.publish(TOPIC, b"first")
            if not connected_first:
                await connect(node, other)
            assert [m.data for m in await receive(subscription)] == [b"first"]
