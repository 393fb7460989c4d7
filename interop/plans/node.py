"""A node of test-plans' gossipsub-interop, after its test-specs/implementation.md.

`python -m interop.plans.node --params params.json`; which node it is the host's name says
(`node7`), and `--router gossipsub` has it be py-libp2p's GossipSub in place of Episub.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import trio
from libp2p import new_host
from libp2p.abc import IHost, IPubsubRouter, ISubscriptionAPI
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.keys import KeyPair
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pb.rpc_pb2 import Message
from libp2p.pubsub.pubsub import Pubsub, get_peer_and_seqno_msg_id
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

from episub_router import (
    BroadcastParams,
    EpisubParams,
    EpisubRouter,
    FallbackParams,
    ResilientPubsub,
)
from interop.plans import script

PORT = 9000
ROUTERS = ("episub", "gossipsub")
_ID = 8
"""Bytes of a message id, at the begin of its data."""
_CONNECTING = 60.0
"""Seconds that a connection may take: the other may start later."""
_ATTEMPT = 10.0
"""Seconds of one attempt: py-libp2p's may wait for ever where both dial at once."""
_PAUSE = 0.2
"""Seconds between two attempts."""


def key_pair(node: int) -> KeyPair:
    """The node's identity: its number, little-endian, is the Ed25519 key."""
    return create_new_key_pair(node.to_bytes(32, "little"))


def message_id(message: Message) -> bytes:
    """The first 8 bytes of the data."""
    return message.data[:_ID]


def log(text: str, **fields: Any) -> None:
    """A line of output."""
    entry = {"time": datetime.now(UTC).isoformat(), "msg": text, **fields}
    print(json.dumps(entry), flush=True)


class LoggingPubsub(ResilientPubsub):
    """Logs each copy of a message that comes, the first and the others."""

    async def push_msg(self, msg_forwarder: ID, msg: Message) -> None:
        if msg_forwarder != self.my_id:
            number = int.from_bytes(message_id(msg), "big")
            topic = next(iter(msg.topicIDs), "")
            log("Received Message", id=str(number), topic=topic, **{"from": str(msg_forwarder)})
        await super().push_msg(msg_forwarder, msg)


class AnonymousGossipSub(GossipSub):
    """py-libp2p's, which takes all messages without author and number for one."""

    async def publish(self, msg_forwarder: ID, pubsub_msg: Message) -> None:
        self.equivocation_detection.clear()
        await super().publish(msg_forwarder, pubsub_msg)


class Node:
    """One node and its script."""

    def __init__(
        self, number: int, router: str, threshold: int, start: float, nursery: trio.Nursery
    ) -> None:
        self._number = number
        self._router = router
        self._threshold = threshold
        self._start = start
        self._nursery = nursery
        self._host: IHost = new_host(key_pair=key_pair(number), muxer_preference="YAMUX")
        self._pubsub: Pubsub | None = None
        self._stack = AsyncExitStack()

    async def run(self, instructions: Sequence[script.Instruction]) -> NoReturn:
        """Carry out the script, and end the process."""
        log("PeerID", id=str(self._host.get_id()), node_id=self._number)
        async with self._stack:
            # Others are told of this address: that of all interfaces would not do.
            listen = [Multiaddr(_address(self._number))]
            await self._stack.enter_async_context(self._host.run(listen))
            for instruction in instructions:
                await self._obey(instruction)
            # As the other implementations end: py-libp2p's swarm may wait for its peers for ever.
            sys.stdout.flush()
            os._exit(0)

    async def _obey(self, instruction: script.Instruction) -> None:
        match instruction:
            case script.InitGossipSub(params):
                await self._init(params)
            case script.Connect(nodes):
                for node in nodes:
                    await self._connect(node)
            case script.IfNodeIdEquals(node, inner):
                if node == self._number:
                    await self._obey(inner)
            case script.WaitUntil(elapsed):
                await trio.sleep_until(self._start + elapsed)
            case script.Publish(message, size, topic):
                data = message.to_bytes(_ID, "big").ljust(size, b"\0")
                pubsub = self._running()
                log("Published Message", id=str(message), topic=topic)
                if self._threshold:
                    await pubsub.publish(topic, data)
                else:
                    # Without author and signature, as the other implementations' nodes publish.
                    await pubsub.push_msg(pubsub.my_id, Message(data=data, topicIDs=[topic]))
            case script.Subscribe(topic):
                self._nursery.start_soon(_drain, await self._running().subscribe(topic))
            case script.ValidationDelay(topic, seconds):

                async def validate(forwarder: ID, message: Message) -> bool:
                    await trio.sleep(seconds)
                    return True

                self._running().set_topic_validator(topic, validate, True)

    async def _init(self, params: script.GossipParams) -> None:
        router: IPubsubRouter
        if self._router == "episub":
            router = _episub(params, self._threshold)
        else:
            router = _gossipsub(params)
        # What goes in pieces has an author.
        pubsub = LoggingPubsub(
            self._host,
            router,
            strict_signing=self._threshold > 0,
            msg_id_constructor=get_peer_and_seqno_msg_id if self._threshold else message_id,
        )
        await self._stack.enter_async_context(background_trio_service(pubsub))
        await self._stack.enter_async_context(background_trio_service(router))
        await pubsub.wait_until_ready()
        self._pubsub = pubsub

    async def _connect(self, node: int) -> None:
        """Connect to another node, which may not listen yet."""
        peer = ID.from_pubkey(key_pair(node).public_key)
        with trio.move_on_after(_CONNECTING):
            while peer not in self._host.get_connected_peers():
                with trio.move_on_after(_ATTEMPT):
                    try:
                        info = PeerInfo(peer, [Multiaddr(_address(node))])
                        await self._host.connect(info)
                    except Exception as error:
                        print(f"node{node}: {error!r}", file=sys.stderr)
                await trio.sleep(_PAUSE)
            return
        print(f"no connection to node{node}", file=sys.stderr)

    def _running(self) -> Pubsub:
        if self._pubsub is None:
            raise ValueError("the script has no initGossipSub before this")
        return self._pubsub


def _address(node: int) -> str:
    return f"/ip4/{socket.gethostbyname(f'node{node}')}/tcp/{PORT}"


def _gossipsub(params: script.GossipParams) -> GossipSub:
    """With what makes it keep to its parameters (docs/interop.md)."""
    router = AnonymousGossipSub(
        FallbackParams().protocols[:-1],
        degree=params.degree,
        degree_low=params.degree_low,
        degree_high=params.degree_high,
        gossip_window=params.gossip_window,
        gossip_history=params.gossip_history,
        heartbeat_initial_delay=params.heartbeat_initial_delay,
        heartbeat_interval=params.heartbeat_interval,  # type: ignore[arg-type]  # it only sleeps
        time_to_live=round(params.fanout_ttl),
        prune_back_off=round(params.prune_backoff),
        unsubscribe_back_off=round(params.unsubscribe_backoff),
        spam_protection_enabled=False,
        adaptive_gossip_enabled=False,
    )
    router.scorer = None
    return router


def _episub(params: script.GossipParams, threshold: int) -> EpisubRouter:
    """GossipSub's parameters are for peers that don't speak Episub; its windows and its fanout have
    the specification's values."""
    return EpisubRouter(
        EpisubParams(broadcast=BroadcastParams(piece_threshold=threshold)),
        fallback=FallbackParams(
            degree=params.degree,
            degree_low=params.degree_low,
            degree_high=params.degree_high,
            heartbeat_interval=max(1, round(params.heartbeat_interval)),
            prune_backoff=round(params.prune_backoff),
        ),
    )


async def _drain(subscription: ISubscriptionAPI) -> None:
    while True:
        await subscription.get()


async def _main(
    number: int, router: str, threshold: int, instructions: Sequence[script.Instruction]
) -> None:
    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        await Node(number, router, threshold, start, nursery).run(instructions)


def main(arguments: list[str]) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--params", type=Path, required=True)
    parser.add_argument("--router", choices=ROUTERS, default="episub")
    parser.add_argument("--piece-threshold", type=int, default=0)
    args = parser.parse_args(arguments)
    name = socket.gethostname()
    if not name.removeprefix("node").isdecimal():
        parser.error(f"the host's name must be like node7, not {name!r}")
    try:
        instructions = script.load(args.params)
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    number = int(name.removeprefix("node"))
    trio.run(_main, number, args.router, args.piece_threshold, instructions)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
