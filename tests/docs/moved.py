"""An application of GossipSub, and what it becomes: three lines change."""

from __future__ import annotations

import re

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

NAMED = AFTER.replace("6, 4, 12", "degree=6, degree_low=4, degree_high=12")


def wrong(right: str, written: str, error: str) -> str:
    """`NAMED` with an argument that mypy finds an error in; a missing error is one, too."""
    changed = NAMED.replace(right, written)
    return re.sub(r"(from_gossipsub.*)", rf"\1  # type: ignore[{error}]", changed)


TYPED = {
    "moved": NAMED,
    "no_such_argument": wrong("degree=", "degre=", "call-arg"),
    "wrong_type": wrong("interval=1", "interval='1'", "arg-type"),
}
"""Programs that `make lint` types, by their modules."""
