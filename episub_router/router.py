"""The py-libp2p router: thin hooks around `net.engine`.

Pubsub can't survive an exception from its router: one out of `handle_rpc` stops the whole
host, one out of `publish` stops Pubsub. So every hook catches, counts and logs.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from random import Random
from types import MappingProxyType
from typing import Any

import trio
from libp2p.abc import IPubsubRouter
from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service import Service
from multiaddr import Multiaddr

from episub_router.net.counters import Reason
from episub_router.net.discovery.bootstrap import Bootstrap, parse_bootstrap
from episub_router.net.discovery.source import Discovery
from episub_router.net.engine import Engine
from episub_router.net.params import RouterParams
from episub_router.overlay import Neighbor, Overlay
from episub_router.protocol.params import EpisubParams
from episub_router.pubsub import ResilientPubsub
from episub_router.trace.node import NodeTrace
from episub_router.trace.tracer import Tracer
from episub_router.wire import check_params

logger = logging.getLogger(__name__)

PROTOCOL_ID = TProtocol("/episub/1.0.0")


class EpisubRouter(IPubsubRouter, Service):
    """Broadcasts along trees over a self-healing overlay, one of each per topic.

        router = EpisubRouter(bootstrap=["/ip4/10.0.0.1/tcp/4001/p2p/12D3..."])
        pubsub = Pubsub(host, router)
        async with background_trio_service(pubsub), background_trio_service(router):
            subscription = await pubsub.subscribe("news")

    `bootstrap` are multiaddrs with /p2p/ of nodes to join through, `discovery` are places to
    look for more and to be found in, such as `DhtDiscovery(dht)`; connected peers that are in
    the topic are known without either. `seed` makes the overlay's random choices repeatable.
    `tracer` gets what happens here and in the Pubsub, which has to be a `ResilientPubsub` then.
    Raises ValueError for a bad bootstrap address and for params that the wire format can't carry.
    """

    def __init__(
        self,
        params: EpisubParams | None = None,
        *,
        router_params: RouterParams | None = None,
        bootstrap: Iterable[Multiaddr | str] = (),
        discovery: Iterable[Discovery] = (),
        seed: int | None = None,
        tracer: Tracer | None = None,
    ) -> None:
        self.tracer = tracer
        self._params = params or EpisubParams()
        check_params(self._params)
        self._router_params = router_params or RouterParams()
        self._bootstrap = Bootstrap(parse_bootstrap(bootstrap))
        self._discovery = tuple(discovery)
        self._rng = Random(seed)
        self._engine: Engine | None = None
        self._logged: set[str] = set()
        self.degree = self._params.membership.active_size
        self.peer_protocol: dict[ID, TProtocol] = {}

    # For applications, tools and tests

    @property
    def mesh(self) -> dict[str, set[ID]]:  # type: ignore[override]
        """Joined topics and the neighbours in each."""
        return self._attached().mesh.neighbors

    @property
    def fanout(self) -> dict[str, set[ID]]:  # type: ignore[override]
        """Topics published to without joining, and the subscribers chosen for each."""
        return self._attached().fanout.peers

    def overlay(self, topic: str) -> Overlay:
        """A snapshot of `topic`; raises KeyError if this node hasn't joined it."""
        engine = self._attached()
        machine = engine.driver.joined(topic)
        if machine is None:
            raise KeyError(topic)
        broadcast = machine.broadcast
        return Overlay(
            topic=topic,
            active=tuple(
                Neighbor(
                    _id(peer),
                    link.kind,
                    None if link.rtt is None else link.rtt.mean,
                    broadcast.tree.is_eager(peer),
                )
                for peer, link in machine.membership.active.items()
            ),
            passive=tuple(_id(peer) for peer in machine.membership.passive),
            validating=broadcast.arriving,
            missing=broadcast.missing,
            hops=MappingProxyType(dict(engine.driver.hops(topic))),
            counters=engine.counts(),
        )

    async def wait_for_mesh(
        self,
        peer_id: ID,
        topic_id: str,
        timeout: float = 5.0,  # noqa: ASYNC109 (Pubsub passes it)
    ) -> None:
        """Wait until `peer_id` is a neighbour in `topic_id`; trio.TooSlowError after `timeout`."""
        with trio.fail_after(timeout):
            await self._attached().mesh.wait(topic_id, peer_id)

    async def mesh_changed(self) -> None:
        """Wait until a neighbour comes or goes, in any topic."""
        await self._attached().mesh.changed()

    # Pubsub's hooks

    def get_protocols(self) -> list[TProtocol]:
        return [PROTOCOL_ID]

    def attach(self, pubsub: Pubsub) -> None:
        if self.tracer is not None and not isinstance(pubsub, ResilientPubsub):
            raise ValueError("a tracer needs a ResilientPubsub")
        self._engine = Engine(
            pubsub,
            self.get_protocols(),
            self._params,
            self._router_params,
            self._bootstrap,
            self._discovery,
            self._rng,
        )

    def trace_to(self, trace: NodeTrace) -> None:
        """Have `trace` told of neighbours, links, round trips and drops; Pubsub calls it."""
        self._attached().trace_to(trace)

    async def run(self) -> None:
        """The service: timers, dials, pings and retries."""
        await self._attached().run()

    def add_peer(self, peer_id: ID, protocol_id: TProtocol | None) -> None:
        if protocol_id is not None:
            self.peer_protocol[peer_id] = protocol_id

    def remove_peer(self, peer_id: ID) -> None:
        self.peer_protocol.pop(peer_id, None)
        with self._guard("remove_peer") as engine:
            engine.peer_removed(peer_id)

    async def flush_pending_messages(self, peer_id: ID) -> None:
        if self.peer_protocol.get(peer_id) == PROTOCOL_ID:
            with self._guard("flush_pending_messages") as engine:
                await engine.peer_writable(peer_id)

    async def send_recent_messages(self, peer_id: ID, topic: str) -> None:
        with self._guard("send_recent_messages") as engine:
            engine.replay(peer_id, topic)

    async def on_peer_subscribed(self, peer_id: ID, topic: str) -> None:
        with self._guard("on_peer_subscribed") as engine:
            engine.peer_subscribed(peer_id, topic)

    async def handle_rpc(self, rpc: rpc_pb2.RPC, sender_peer_id: ID) -> None:
        with self._guard("handle_rpc") as engine:
            engine.received(rpc, sender_peer_id)

    async def publish(self, msg_forwarder: ID, pubsub_msg: rpc_pb2.Message) -> None:
        with self._guard("publish") as engine:
            engine.publish(msg_forwarder, pubsub_msg)

    async def join(self, topic: str) -> None:
        with self._guard("join") as engine:
            engine.join(topic)

    async def leave(self, topic: str) -> None:
        with self._guard("leave") as engine:
            engine.leave(topic)

    def _attached(self) -> Engine:
        if self._engine is None:
            raise RuntimeError("the router isn't attached to a Pubsub")
        return self._engine

    @contextmanager
    def _guard(self, hook: str) -> Iterator[Engine]:
        engine = self._attached()
        try:
            yield engine
        except Exception:
            engine.counters.add(Reason.ERROR)
            if hook not in self._logged:
                self._logged.add(hook)
                logger.exception("%s failed; further failures are only counted", hook)


def _id(peer: Any) -> ID:
    return ID(peer)
