"""The interop peer of py-libp2p: GossipSub or EpisubRouter, as interop/README.md says."""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import platform
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from importlib.metadata import version
from typing import Any

import trio
from libp2p import new_host
from libp2p.abc import IHost, IPubsubRouter, ISubscriptionAPI
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.custom_types import TProtocol
from libp2p.network.swarm import Swarm
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import info_from_p2p_addr
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pb.rpc_pb2 import RPC, Message
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.validators import PUBSUB_SIGNING_PREFIX
from libp2p.tools.anyio_service import Service, background_trio_service
from multiaddr import Multiaddr

from episub_router import (
    BroadcastParams,
    EpisubParams,
    EpisubRouter,
    FallbackParams,
    ResilientPubsub,
    SignaturePolicy,
)
from episub_router.trace.tracer import Tracer

VERSIONS = ["/meshsub/1.3.0", "/meshsub/1.2.0", "/meshsub/1.1.0", "/meshsub/1.0.0"]
MESSAGE_IDS: dict[str, Callable[[Message], bytes]] = {
    "data": lambda message: hashlib.sha256(message.data).digest(),
    "ethereum": lambda message: ethereum_id(message.topicIDs[0].encode(), message.data),
}
EVENTS: list[str] = []
"""Those that haven't been written yet."""
POLL = 0.02
"""Seconds: py-libp2p has no events for what `_Watch` reports."""


def parse(arguments: list[str]) -> argparse.Namespace:
    """The flags that all peers share, and a few of this one."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", action="append", default=[])
    parser.add_argument("--no-listen", action="store_true")
    parser.add_argument("--dial", action="append", default=[])
    parser.add_argument("--topic", action="append", default=[])
    parser.add_argument("--protocol")
    parser.add_argument("--key-seed")
    parser.add_argument("--mesh", default="4,6,12")
    parser.add_argument("--heartbeat", type=int, default=1000)
    parser.add_argument("--px", action="store_true")
    parser.add_argument("--no-sign", action="store_true")
    parser.add_argument("--bad-sign", action="store_true")
    parser.add_argument("--policy", choices=["StrictSign", "StrictNoSign"])
    parser.add_argument("--ids", choices=list(MESSAGE_IDS))
    parser.add_argument("--reject")
    parser.add_argument("--trace")
    parser.add_argument("--piece-threshold", type=int, default=0)
    parser.add_argument("--router", choices=["gossipsub", "episub"], default="gossipsub")
    return parser.parse_args(arguments)


def emit(event: str, **fields: Any) -> None:
    """One event as one line, which `flush_events` writes."""
    EVENTS.append(json.dumps({"event": event, **fields}))


def flush_events() -> None:
    """Write the events so far at once: a write costs as much as a message."""
    if EVENTS:
        sys.stdout.write("\n".join(EVENTS) + "\n")
        sys.stdout.flush()
        EVENTS.clear()


async def flush_regularly() -> None:
    """Write events as they come, until cancelled."""
    while True:
        flush_events()
        await trio.sleep(POLL)


def make_payload(size: int, seed: str) -> bytes:
    """SHA-256 of "seed/0", "seed/1", ..., cut to `size` bytes."""
    blocks = range((size + 31) // 32)
    return b"".join(hashlib.sha256(f"{seed}/{i}".encode()).digest() for i in blocks)[:size]


def ethereum_id(topic: bytes, data: bytes) -> bytes:
    """Altair's function for data that isn't Snappy's, under MESSAGE_DOMAIN_INVALID_SNAPPY."""
    text = bytes(4) + len(topic).to_bytes(8, "little") + topic + data
    return hashlib.sha256(text).digest()[:20]


def make_router(args: argparse.Namespace) -> IPubsubRouter:
    """EpisubRouter, or GossipSub with what makes its mesh keep to its degree (docs/interop.md)."""
    if args.router == "episub":
        params = FallbackParams()
        if args.protocol:
            params = replace(params, protocols=(TProtocol(args.protocol),))
        broadcast = BroadcastParams(piece_threshold=args.piece_threshold)
        return EpisubRouter(EpisubParams(broadcast=broadcast), fallback=params)
    low, degree, high = map(int, args.mesh.split(","))
    router = GossipSub(
        [TProtocol(p) for p in ([args.protocol] if args.protocol else VERSIONS)],
        degree=degree,
        degree_low=low,
        degree_high=high,
        heartbeat_interval=args.heartbeat / 1000,
        do_px=args.px,
        spam_protection_enabled=False,
        adaptive_gossip_enabled=False,
    )
    router.scorer = None
    return router


def make_pubsub(
    args: argparse.Namespace, host: IHost, router: IPubsubRouter, tracer: Tracer | None
) -> Pubsub:
    """Pubsub as a stock peer has it; ResilientPubsub around EpisubRouter, and to trace."""
    options: dict[str, Any] = {"strict_signing": not args.no_sign}
    if args.ids is not None:
        options["msg_id_constructor"] = MESSAGE_IDS[args.ids]
    if args.router == "episub" or tracer is not None:
        if args.policy is not None:
            policy = SignaturePolicy(args.policy)
            options |= {"signature_policy": policy}
            options["strict_signing"] = policy is SignaturePolicy.STRICT_SIGN
        return ResilientPubsub(host, router, tracer=tracer, **options)
    if args.policy == "StrictNoSign":
        # py-libp2p has no such policy: this takes messages without an author, and names its own.
        options["strict_signing"] = False
    return Pubsub(host, router, **options)


class Peer:
    """One host, its subscriptions, and the commands that it takes."""

    def __init__(
        self, args: argparse.Namespace, host: IHost, pubsub: Pubsub, nursery: trio.Nursery
    ) -> None:
        self._args = args
        self._host = host
        self._pubsub = pubsub
        self._nursery = nursery
        self._readers: dict[str, trio.CancelScope] = {}

    async def obey(self, line: str) -> None:
        """Carry out one command; what fails is reported."""
        op = None
        try:
            command = json.loads(line)
            op = command["op"]
            if op == "publish":
                await self.publish(command)
            elif op == "subscribe":
                await self.subscribe(command["topic"])
            elif op == "unsubscribe":
                await self.unsubscribe(command["topic"])
            elif op == "dial":
                self._nursery.start_soon(self.dial, command["addr"])
            else:
                raise ValueError(f"no command is called {op!r}")
        except Exception as error:
            emit("failed", op=op, error=repr(error))

    async def publish(self, command: dict[str, Any]) -> None:
        data = (
            base64.b64decode(command["data"])
            if "data" in command
            else make_payload(command["size"], command["seed"])
        )
        if self._args.bad_sign:
            await self._publish_forged(command["topic"], data)
        else:
            await self._pubsub.publish(command["topic"], data)
        emit("published", topic=command["topic"], **_digest(data))

    async def _publish_forged(self, topic: str, data: bytes) -> None:
        """Past Pubsub, which doesn't publish what it wouldn't accept."""
        own = self._host.get_id()
        message = Message(from_id=own.to_bytes(), data=data, seqno=b"forged00", topicIDs=[topic])
        signed = PUBSUB_SIGNING_PREFIX.encode() + message.SerializeToString()
        message.signature = create_new_key_pair(b"\xff" * 32).private_key.sign(signed)
        await self._pubsub.router.publish(own, message)

    async def subscribe(self, topic: str) -> None:
        if self._args.reject is not None:
            bad = self._args.reject.encode()
            self._pubsub.set_topic_validator(
                topic, lambda _, message: not message.data.startswith(bad), False
            )
        subscription = await self._pubsub.subscribe(topic)
        scope = self._readers[topic] = trio.CancelScope()
        self._nursery.start_soon(self._read, topic, subscription, scope)
        emit("subscribed", topic=topic)

    async def unsubscribe(self, topic: str) -> None:
        self._readers.pop(topic).cancel()
        await self._pubsub.unsubscribe(topic)
        emit("unsubscribed", topic=topic)

    async def dial(self, address: str) -> None:
        try:
            await self._host.connect(info_from_p2p_addr(Multiaddr(address)))
        except Exception as error:
            emit("failed", op="dial", error=repr(error))

    async def _read(
        self, topic: str, subscription: ISubscriptionAPI, scope: trio.CancelScope
    ) -> None:
        with scope:
            while True:
                message: Message = await subscription.get()
                if message.from_id != self._host.get_id().to_bytes():
                    emit(
                        "delivery",
                        topic=topic,
                        id=self._pubsub.get_message_id(message).hex(),
                        **{"from": _name(message.from_id)},
                        **_digest(message.data),
                    )

    async def watch(self) -> None:
        """Report what changes in the tables of Pubsub and the router."""
        connected: set[ID] = set()
        protocols: dict[ID, str] = {}
        subscribers: dict[str, set[ID]] = {}
        mesh: dict[str, set[ID]] = {}
        router: Any = self._pubsub.router
        while True:
            now = set(self._host.get_connected_peers())
            for peer in now - connected:
                emit("connected", peer=str(peer))
            for peer in connected - now:
                emit("disconnected", peer=str(peer))
            connected = now
            for peer, protocol in dict(router.peer_protocol).items():
                if protocols.get(peer) != protocol:
                    emit("protocol", peer=str(peer), protocol=str(protocol))
            protocols = dict(router.peer_protocol)
            topics = {topic: set(peers) for topic, peers in self._pubsub.peer_topics.items()}
            for topic in topics | subscribers:
                before, after = subscribers.get(topic, set()), topics.get(topic, set())
                for peer in after - before:
                    emit("peer_subscribed", peer=str(peer), topic=topic)
                for peer in before - after:
                    emit("peer_unsubscribed", peer=str(peer), topic=topic)
            subscribers = topics
            meshes = {topic: set(peers) for topic, peers in router.mesh.items()}
            for topic in meshes | mesh:
                peers = meshes.get(topic, set())
                if peers != mesh.get(topic, set()):
                    emit("mesh", topic=topic, peers=sorted(map(str, peers)))
            mesh = meshes
            await trio.sleep(POLL)


def report_arrivals(pubsub: Pubsub) -> None:
    """Report what comes in before anything is made of it: control messages, and each copy."""
    handle_rpc, push_msg = pubsub.router.handle_rpc, pubsub.push_msg

    async def reporting_rpc(rpc: RPC, sender: ID) -> None:
        control = rpc.control
        counts = {
            "ihave": sum(len(entry.messageIDs) for entry in control.ihave),
            "iwant": sum(len(entry.messageIDs) for entry in control.iwant),
            "idontwant": sum(len(entry.messageIDs) for entry in control.idontwant),
            "graft": len(control.graft),
            "prune": len(control.prune),
            "px": sum(len(entry.peers) for entry in control.prune),
        }
        if any(counts.values()):
            emit("control", peer=str(sender), **{k: n for k, n in counts.items() if n})
        await handle_rpc(rpc, sender)

    async def reporting_message(sender: ID, message: Message) -> None:
        if sender != pubsub.my_id:
            emit("copy", peer=str(sender), **_digest(message.data))
        await push_msg(sender, message)

    vars(pubsub.router)["handle_rpc"] = reporting_rpc
    vars(pubsub)["push_msg"] = reporting_message


@lru_cache(maxsize=256)
def _name(peer: bytes) -> str:
    return str(ID(peer))


def _digest(data: bytes) -> dict[str, Any]:
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}


async def lines() -> AsyncIterator[str]:
    """Standard input line by line, to its end."""
    async for line in trio.wrap_file(sys.stdin):
        yield line


@asynccontextmanager
async def running(args: argparse.Namespace, pubsub: Pubsub, host: IHost) -> AsyncIterator[None]:
    """The host with its services; errors of a swarm that is stopped under traffic are no news."""
    default = [] if args.no_listen else ["/ip4/127.0.0.1/tcp/0"]
    listen = [Multiaddr(a) for a in args.listen or default]
    stopping = False
    try:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(host.run(listen))
            await stack.enter_async_context(background_trio_service(pubsub))
            assert isinstance(pubsub.router, Service)
            await stack.enter_async_context(background_trio_service(pubsub.router))
            await pubsub.wait_until_ready()
            network = host.get_network()
            assert isinstance(network, Swarm)
            await network.auto_connector.stop()
            yield
            stopping = True
    except Exception:
        if not stopping:
            raise
    finally:
        pubsub.seen_messages.stop()


async def main(arguments: list[str]) -> None:
    args = parse(arguments)
    seed = hashlib.sha256(args.key_seed.encode()).digest() if args.key_seed else None
    host = new_host(
        key_pair=create_new_key_pair(seed),
        muxer_preference="YAMUX",
        enable_quic=any("/quic-v1" in address for address in args.listen),
    )
    tracing = Tracer(args.trace) if args.trace else nullcontext()
    with tracing as tracer:
        pubsub = make_pubsub(args, host, make_router(args), tracer)
        report_arrivals(pubsub)
        await serve(args, pubsub, host)


async def serve(args: argparse.Namespace, pubsub: Pubsub, host: IHost) -> None:
    """Obey the standard input to its end."""
    async with running(args, pubsub, host), trio.open_nursery() as nursery:
        peer = Peer(args, host, pubsub, nursery)
        emit(
            "listening",
            peer=str(host.get_id()),
            addrs=[str(a) for a in host.get_addrs()],
            versions={"libp2p": version("libp2p"), "python": platform.python_version()},
        )
        nursery.start_soon(peer.watch)
        nursery.start_soon(flush_regularly)
        for topic in args.topic:
            await peer.subscribe(topic)
        for address in args.dial:
            nursery.start_soon(peer.dial, address)
        async for line in lines():
            await peer.obey(line)
        nursery.cancel_scope.cancel()
    flush_events()


if __name__ == "__main__":
    trio.run(main, sys.argv[1:])
