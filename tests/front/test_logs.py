"""What a node logs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Any

import pytest
import trio
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.id import ID
from multiaddr import Multiaddr

import episub_router
from episub_router import EpisubRouter, PubsubParams, ReaderBehind, ResilientPubsub
from tests import children
from tests.docs.snippets import ROOT
from tests.hosts import PATIENCE, connect, eventually, free_port, receive, running_nodes
from tests.router.overlays import TOPIC, router

pytestmark = pytest.mark.hosts


async def test_five_healthy_hosts_log_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "episub_router"):
        async with running_nodes(5, router=EpisubRouter, pubsub_class=ResilientPubsub) as nodes:
            subscriptions = [await node.pubsub.subscribe(TOPIC) for node in nodes]
            for node in nodes[1:]:
                await connect(node, nodes[0])
            for node in nodes:
                await router(node).joined(TOPIC, timeout=PATIENCE)
            for node in nodes:
                await node.pubsub.publish(TOPIC, str(node.id).encode())
            for subscription in subscriptions:
                await receive(subscription, len(nodes))
            await nodes[1].pubsub.unsubscribe(TOPIC)
    lines = [record for record in caplog.records if record.name.startswith("episub_router")]
    assert not [r.getMessage() for r in lines if r.levelno >= logging.WARNING]
    said = [record.getMessage() for record in lines]
    assert len([line for line in said if "joined" in line]) == len(nodes)
    assert [line for line in said if "went: one of the two left the topic" in line]


async def stop_at_once(count: int) -> None:
    """Run hosts of one topic, and end them when all have joined."""
    joined: list[ID] = []
    stop = trio.Event()

    async def take_part(bootstrap: Sequence[Multiaddr], *, task_status: Any) -> None:
        async with episub_router.open(TOPIC, bootstrap=bootstrap) as topic:
            task_status.started(topic.addresses)
            await topic.joined(PATIENCE)
            await topic.publish(b"hello")
            joined.append(topic.pubsub.my_id)
            await stop.wait()

    async with trio.open_nursery() as nursery:
        addresses = await nursery.start(take_part, [])
        for _ in range(count - 1):
            await nursery.start(take_part, addresses)
        await eventually(lambda: len(joined) == count)
        stop.set()


async def test_three_hosts_that_stop_at_once_log_no_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even py-libp2p's loggers, which would write to stderr."""
    monkeypatch.setattr(logging.getLogger("libp2p"), "propagate", True)
    for _ in range(3):
        await stop_at_once(3)
    assert not [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]


_UNREACHABLE = """
import trio
from episub_router import BootstrapFailed, open

async def main():
    async with open("news", bootstrap=["%s"]) as topic:
        await anext(event async for event in topic.events() if isinstance(event, BootstrapFailed))

trio.run(main)
"""


def test_a_program_that_asks_for_no_log_gets_none() -> None:
    """py-libp2p's lines go to stderr where no logger has a handler: eight for each dead address."""
    nobody = ID.from_pubkey(create_new_key_pair().public_key)
    address = f"/ip4/127.0.0.1/tcp/{free_port()}/p2p/{nobody}"
    ran = children.run(
        [sys.executable, "-c", _UNREACHABLE % address], capture_output=True, timeout=PATIENCE
    )
    assert (ran.returncode, ran.stderr) == (0, b"")


async def test_a_reader_that_is_behind_is_an_event_and_a_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with running_nodes(
        1,
        router=EpisubRouter,
        pubsub_class=ResilientPubsub,
        pubsub_options={"params": PubsubParams(subscription_buffer=1)},
    ) as [node]:
        events = router(node).events(TOPIC)
        await node.pubsub.subscribe(TOPIC)
        with caplog.at_level(logging.INFO, "episub_router"):
            for _ in range(2):
                await node.pubsub.publish(TOPIC, b"unread")
        with trio.fail_after(PATIENCE):
            assert await anext(events) == ReaderBehind(TOPIC, 1)
    assert "this node's reader is behind: 1 messages dropped so far" in caplog.text


def test_every_logger_is_documented() -> None:
    text = (ROOT / "docs" / "logging.md").read_text()
    package = ROOT / "episub_router"
    loggers = {
        path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
        for path in package.rglob("*.py")
        if "getLogger(__name__)" in path.read_text()
    }
    assert len(loggers) >= 8
    assert not [name for name in loggers if f"`{name}`" not in text]


async def test_a_topic_that_nobody_subscribed_to() -> None:
    async with running_nodes(1, router=EpisubRouter, pubsub_class=ResilientPubsub) as [node]:
        await node.pubsub.subscribe(TOPIC)
        with pytest.raises(
            KeyError, match=r"nobody here subscribed to 'zzz'; the topics .* 'news'"
        ):
            await router(node).joined("zzz")
        with pytest.raises(KeyError, match="nobody here subscribed to 'zzz'"):
            router(node).overlay("zzz")
