"""The guide for users of GossipSub names parameters that exist on either side."""

from __future__ import annotations

import inspect
import re
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from libp2p.pubsub.gossipsub import GossipSub

import episub_router
from tests import children
from tests.docs.snippets import ROOT
from tests.hosts import PATIENCE

TEXT = (ROOT / "docs" / "from-gossipsub.md").read_text()


def test_parameters_of_gossipsub() -> None:
    rows = re.findall(r"^\| (`.*?) \|", TEXT, re.M)
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    assert len(named) > 10
    assert named <= set(inspect.signature(GossipSub.__init__).parameters)


def test_parameters_of_episub() -> None:
    named = re.findall(r"`(\w+Params)\.(\w+)`", TEXT)
    assert len(named) >= 4
    for owner, name in named:
        params = getattr(episub_router, owner)
        assert name in {spec.name for spec in fields(params)}


BEFORE = """\
import trio
from libp2p import new_host
from libp2p.peer.id import ID
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V12, GossipSub
from libp2p.pubsub.pb.rpc_pb2 import Message
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr


def is_short(forwarder: ID, message: Message) -> bool:
    return len(message.data) < 10


async def is_a_number(forwarder: ID, message: Message) -> bool:
    return message.data.isdigit()


async def main() -> None:
    host = new_host()
    router = GossipSub([PROTOCOL_ID_V12], 6, 4, 12, heartbeat_interval=1, time_to_live=60)
    pubsub = Pubsub(host, router, strict_signing=True)
    pubsub.set_topic_validator("news", is_short, False)
    pubsub.set_topic_validator("sport", is_a_number, True)
    async with (
        host.run([Multiaddr("/ip4/127.0.0.1/tcp/0")]),
        background_trio_service(pubsub),
        background_trio_service(router),
    ):
        for topic, data in (("news", b"too long for it"), ("sport", b"7"), ("weather", b"rain")):
            subscription = await pubsub.subscribe(topic)
            await pubsub.publish(topic, data)
            if topic != "news":
                print(topic, (await subscription.get()).data.decode())


trio.run(main)
"""
AFTER = (
    BEFORE.replace(
        "from libp2p.pubsub.pubsub import Pubsub",
        "from episub_router import EpisubRouter, ResilientPubsub",
    )
    .replace("router = GossipSub(", "router = EpisubRouter.from_gossipsub(")
    .replace("pubsub = Pubsub(", "pubsub = ResilientPubsub(")
)


@pytest.mark.hosts
def test_three_lines_move_an_application_of_three_topics_with_validators(tmp_path: Path) -> None:
    lines = zip(BEFORE.splitlines(), AFTER.splitlines(), strict=True)
    assert len([new for old, new in lines if old != new]) == 3
    path = tmp_path / "app.py"
    for text in (BEFORE, AFTER):
        path.write_text(text)
        ran = children.run([sys.executable, path], capture_output=True, timeout=PATIENCE)
        assert (ran.returncode, ran.stdout) == (0, b"sport 7\nweather rain\n"), ran.stderr


@pytest.mark.slow
def test_what_is_moved_is_typed(tmp_path: Path) -> None:
    """An argument that GossipSub hasn't, or of another type, is an error of mypy."""
    named = AFTER.replace("6, 4, 12", "degree=6, degree_low=4, degree_high=12")
    programs = {
        "right": named,
        "degre": named.replace("degree=6, ", "degre=6, "),
        "heartbeat_interval": named.replace("heartbeat_interval=1", "heartbeat_interval='1'"),
    }
    for name, text in programs.items():
        (tmp_path / f"{name}.py").write_text(text)
    command = [sys.executable, "-m", "mypy", "--strict", *map(str, tmp_path.glob("*.py"))]
    ran = children.run(command, cwd=ROOT, capture_output=True, timeout=PATIENCE)
    errors = re.findall(r"(\w+)\.py:\d+: error: (.+)", ran.stdout.decode())
    assert sorted(name for name, _ in errors) == ["degre", "heartbeat_interval"], errors
    assert all(name in error for name, error in errors)
