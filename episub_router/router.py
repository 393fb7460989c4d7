"""The py-libp2p router: Pubsub's hooks, which hand on to the two sides of a node, and what
applications see of it.

Pubsub can't survive an exception from its router: one out of `handle_rpc` stops the whole
host, one out of `publish` stops Pubsub. So every hook catches, counts and logs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from inspect import signature
from random import Random
from typing import Any, Unpack

import trio
from libp2p.abc import IPubsubRouter
from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo
from libp2p.pubsub import gossipsub
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V13, PROTOCOL_ID_V14, PROTOCOL_ID_V20
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service import Service
from libp2p.tools.anyio_service.exceptions import LifecycleError
from multiaddr import Multiaddr

from episub_router.fallback import Bridge, FallbackParams
from episub_router.fallback.extension import EpisubExtension, announces_episub
from episub_router.gossipsub_arguments import GossipSubOptions, router_options
from episub_router.net.connections.idle import ConnectionNotifee
from episub_router.net.connections.moved import close_from_lost_addresses
from episub_router.net.counters import Counters, Ordinary
from episub_router.net.discovery.bootstrap import parse_bootstrap
from episub_router.net.discovery.rendezvous import Discovery, check_sources
from episub_router.net.events import EventStream, NotJoined, ReaderBehind
from episub_router.net.node import NodeParts
from episub_router.net.params import RouterParams
from episub_router.net.peers import PROTOCOL_ID, PeerSide
from episub_router.protocol.events import ContactsFound
from episub_router.protocol.params import EpisubParams
from episub_router.publishing import (
    RouterNotRunning,
    check_message_size,
    check_one_pubsub,
)
from episub_router.pubsub import ResilientPubsub
from episub_router.snapshot import OverlaySnapshot, overlay_snapshot
from episub_router.trace.node import NodeTrace
from episub_router.trace.tracer import Tracer
from episub_router.util.checks import check_names, check_seconds, check_type
from episub_router.util.message_size import message_size
from episub_router.util.trio_only import check_not_asyncio
from episub_router.wire import check_params, check_topics
from episub_router.wire.peer_records import record_excess

_DEFAULT_FALLBACK = FallbackParams()

_stock: Any = gossipsub

_WITH_EXTENSIONS = (PROTOCOL_ID_V13, PROTOCOL_ID_V14, PROTOCOL_ID_V20)

_NAMED = 10
"""Topics that an error names; chosen: a line."""


class EpisubRouter(IPubsubRouter, Service):
    """Broadcasts along trees over a self-healing overlay, one of each per topic.

        router = EpisubRouter(bootstrap=["/ip4/10.0.0.1/tcp/4001/p2p/12D3..."])
        pubsub = Pubsub(host, router)
        async with background_trio_service(pubsub), background_trio_service(router):
            subscription = await pubsub.subscribe("news")

    Peers that don't speak Episub are served as a gossipsub or floodsub node would serve them,
    and get what the others publish. `fallback` has the parameters of that; None leaves such
    peers alone. `offer_episub=False` makes it a gossipsub node altogether.

    `bootstrap` are multiaddrs with /p2p/ of nodes to join through, `discovery` are places to
    look for more and to be found in, such as `DhtDiscovery(dht)`; connected peers that are in
    the topic are known without either. `may_ban` is asked, with topic and peer, before a
    neighbour is banned; in `protected_topics` two neighbours push each message to a node, so that
    no single one can hold it back (docs/security.md for both). To `direct_peers` this node stays
    connected. `seed` makes the overlay's random choices repeatable.
    `tracer` gets what happens here and in the Pubsub, which has to be a `ResilientPubsub` then.
    Raises TypeError for arguments of a wrong type, ValueError for a bad bootstrap address, for
    params that the wire format can't carry, and if nothing is left to offer.
    """

    def __init__(
        self,
        params: EpisubParams | None = None,
        *,
        router_params: RouterParams | None = None,
        fallback: FallbackParams | None = _DEFAULT_FALLBACK,
        offer_episub: bool = True,
        bootstrap: Iterable[Multiaddr | str] = (),
        discovery: Iterable[Discovery] = (),
        may_ban: Callable[[str, ID], bool] | None = None,
        protected_topics: Iterable[str] = (),
        seed: int | None = None,
        tracer: Tracer | None = None,
        direct_peers: Iterable[PeerInfo] = (),
    ) -> None:
        check_type("params", params, EpisubParams, optional=True)
        check_type("router_params", router_params, RouterParams, optional=True)
        check_type("fallback", fallback, FallbackParams, optional=True)
        check_type("seed", seed, int, optional=True)
        check_type("tracer", tracer, Tracer, optional=True)
        self.tracer = tracer
        params = params or EpisubParams()
        check_params(params)
        self._router_params = router_params or RouterParams()
        self._fallback = fallback
        self._offers_episub = offer_episub
        if fallback is None and not offer_episub:
            raise ValueError("without a fallback, Episub has to be offered")
        self._counters = Counters()
        self._make_node = partial(
            NodeParts,
            params=params,
            router_params=self._router_params,
            counters=self._counters,
            bootstrap=parse_bootstrap(bootstrap),
            discovery=check_sources(discovery),
            rng=Random(seed),
            may_ban=may_ban,
            protected_topics=check_names("protected_topics", protected_topics),
        )
        self._direct: dict[ID, PeerInfo] = {}
        for info in direct_peers:
            check_type("a direct peer", info, PeerInfo)
            self._direct[info.peer_id] = info
        self._pubsub: Pubsub | None = None
        self._unattached: dict[ID, TProtocol] = {}
        """Peers that were added before there was a Pubsub: by tests, not by py-libp2p."""
        self._node: NodeParts | None = None
        self._bridge: Bridge | None = None
        self._sides: list[NodeParts | Bridge] = []
        self.degree = params.membership.active_size
        self.extensions_state = EpisubExtension(announced=offer_episub)

    @classmethod
    def from_gossipsub(
        cls,
        protocols: Sequence[TProtocol],
        degree: int,
        degree_low: int,
        degree_high: int,
        direct_peers: Sequence[PeerInfo] | None = None,
        **options: Unpack[GossipSubOptions],
    ) -> EpisubRouter:
        """A router for what a `GossipSub` is made with, for code that makes one.

        Keyword arguments of `EpisubRouter` itself, except `fallback` and `direct_peers`, may be
        among `options`. Raises ValueError that names what has no meaning here
        (docs/from-gossipsub.md).
        """
        own = set(signature(cls).parameters) - {"fallback", "direct_peers"}
        kept: dict[str, Any] = {name: value for name, value in options.items() if name in own}
        theirs = {name: value for name, value in options.items() if name not in own}
        degrees = (protocols, degree, degree_low, degree_high)
        return cls(**router_options((*degrees, direct_peers), theirs), **kept)

    # For applications, tools and tests

    @property
    def protocols(self) -> list[TProtocol]:
        """What this node offers, the preferred one first."""
        return self.get_protocols()

    @property
    def pubsub(self) -> Pubsub | None:
        """The Pubsub that this router is attached to."""
        return self._pubsub

    @property
    def direct_peers(self) -> dict[ID, PeerInfo]:
        """The peers that this node stays connected to."""
        return self._direct

    @property
    def mesh(self) -> dict[str, set[ID]]:  # type: ignore[override]
        """Joined topics and the neighbours in each, Episub's and gossipsub's."""
        bridged = self._bridge.mesh if self._bridge else {}
        return _union(self._attached().topics.neighbors(), bridged)

    @property
    def fanout(self) -> dict[str, set[ID]]:  # type: ignore[override]
        """Topics published to without joining, and the subscribers chosen for each."""
        bridged = self._bridge.fanout if self._bridge else {}
        return _union(self._attached().payloads.fanout.peers, bridged)

    @property
    def peer_protocol(self) -> dict[ID, TProtocol]:  # type: ignore[override]
        """What our stream to each peer negotiated."""
        return self._unattached if self._node is None else self._node.peers.protocols()

    def overlay(self, topic: str) -> OverlaySnapshot:
        """A snapshot of `topic`; raises KeyError if this node hasn't joined it."""
        check_not_asyncio()
        node = self._attached()
        machine = node.topics.machine(topic)
        if machine is None:
            raise _not_subscribed(topic, self.mesh)
        now = trio.current_time()
        return overlay_snapshot(machine, node.topics.hops(topic), node.counts(), now)

    def set_standing(self, peer: ID, standing: float) -> None:
        """Add `standing` to what `peer` earns by its doings, in all topics; 0 takes it back. Below
        -10 it is asked last, below -40 banned, and what is above 0 outweighs faults."""
        check_not_asyncio()
        self._attached().topics.set_standing(peer.to_bytes(), standing)

    def counters(self) -> Mapping[str, int]:
        """Every counter by name (docs/metrics-node.md)."""
        return self._attached().counts()

    def deliveries(self, topic: str) -> Mapping[int, int]:
        """How many messages of `topic` were accepted after how many hops; 0 for our own."""
        return self._attached().topics.hops(topic)

    def events(self, topic: str) -> EventStream:
        """What happens in `topic` from now on, for `async for`; the topic may be joined later.

        At most 256 events wait for the reader; `EventsMissed` stands for those before them.
        """
        return self._attached().events.read(topic)

    async def joined(
        self,
        topic: str,
        timeout: float = 30.0,  # noqa: ASYNC109 (it raises an error of its own)
    ) -> None:
        """Wait until there is a neighbour in `topic`, of Episub's or of gossipsub's.

        Raises `NotJoined` after `timeout` seconds, which says what was tried, and KeyError if
        nobody here subscribed to `topic`.
        """
        check_not_asyncio()
        check_seconds("timeout", timeout)
        if topic not in self.mesh:
            raise _not_subscribed(topic, self.mesh)
        with trio.move_on_after(timeout):
            while not self.mesh.get(topic):
                await self.mesh_changed()
            return
        raise NotJoined(topic, timeout, self._attached().why_alone(topic))

    async def wait_for_mesh(
        self,
        peer_id: ID,
        topic_id: str,
        timeout: float = 5.0,  # noqa: ASYNC109 (Pubsub passes it)
    ) -> None:
        """Wait until `peer_id` is a neighbour in `topic_id`; trio.TooSlowError after `timeout`."""
        check_not_asyncio()
        with trio.fail_after(timeout):
            while peer_id not in self.mesh.get(topic_id, ()):
                await self.mesh_changed()

    async def mesh_changed(self) -> None:
        """Wait until an Episub neighbour comes or goes, or a gossipsub one comes, in any topic."""
        check_not_asyncio()
        await self._attached().topics.links_changed.park()

    async def wait_for_room(self, most: int = 16) -> None:
        """Wait until no peer has more than `most` messages queued, so that what is published
        next isn't dropped for lack of room.

        Returns after `RouterParams.stall_timeout` at the latest; a peer that has taken nothing
        for so long doesn't count.
        """
        check_not_asyncio()
        await self._attached().outbound.wait_for_room(most)

    @asynccontextmanager
    async def room_to_publish(
        self,
        topics: Sequence[str],
        size: int,
        timeout: float | None = None,  # noqa: ASYNC109 (it raises an error of its own)
    ) -> AsyncIterator[None]:
        """Wait for room for a message of `size` bytes, and keep it until the context ends;
        `ResilientPubsub.publish` does (`PublishGate`)."""
        self._check_running()
        if self._offers_episub:
            check_topics(topics)
        async with self._attached().room.reserve(topics, size, timeout):
            yield

    def check_message_size(self, message: rpc_pb2.Message) -> None:
        """Raises MessageTooLarge for a message of this node that can go neither whole nor in
        pieces."""
        if self._attached().large.goes_in_pieces(message, message_size(message)):
            return
        assert self._pubsub is not None
        check_message_size(message, self._pubsub.max_inbound_rpc_size)

    # Pubsub's hooks

    def get_protocols(self) -> list[TProtocol]:
        own = [PROTOCOL_ID] if self._offers_episub else []
        return own + list(self._fallback.protocols if self._fallback else ())

    def attach(self, pubsub: Pubsub) -> None:
        if self._pubsub is not None:
            raise RuntimeError(
                "the router is in another Pubsub already: make an EpisubRouter for each"
            )
        check_one_pubsub(pubsub.host, self.get_protocols())
        if self.tracer is not None and not isinstance(pubsub, ResilientPubsub):
            raise ValueError("a tracer needs a ResilientPubsub")
        self._pubsub = pubsub
        self._node = node = self._make_node(pubsub)
        if self._offers_episub:
            self._sides.append(node)
        if self._fallback is not None:
            direct = self._direct.values()
            self._bridge = Bridge(pubsub, self._fallback, self.extensions_state, node, direct)
            self._sides.append(self._bridge)
        silence = self._router_params.silence_timeout
        notifee = ConnectionNotifee(node.peers, self._counters, silence)
        pubsub.host.get_network().register_notifee(notifee)

    def trace_to(self, trace: NodeTrace) -> None:
        """Trace neighbours, links, round trips and drops; Pubsub calls it."""
        self._attached().trace_to(trace)
        if self._bridge is not None:
            trace.watch_mesh(partial(getattr, self._bridge, "mesh"))

    async def run(self) -> None:
        """The service: timers, heartbeats, dials, pings and retries."""
        node = self._attached()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.tasks.run)
            nursery.start_soon(node.outbound.run)
            interval = (self._fallback or _DEFAULT_FALLBACK).direct_connect_interval
            nursery.start_soon(close_from_lost_addresses, node.host)
            for peer in self._direct.values():
                nursery.start_soon(node.stay_connected, peer, interval)
            for side in self._sides:
                nursery.start_soon(side.run)

    def add_peer(self, peer_id: ID, protocol_id: TProtocol | None) -> None:
        if protocol_id is None:
            return
        if self._node is None:
            self._unattached[peer_id] = protocol_id
            return
        with self._counters.guarded("add_peer"):
            self._node.peers.stream_opened(peer_id, protocol_id)

    def remove_peer(self, peer_id: ID) -> None:
        with self._counters.guarded("remove_peer"):
            self._attached().peers.stream_lost(peer_id)

    async def flush_pending_messages(self, peer_id: ID) -> None:
        with self._counters.guarded("flush_pending_messages"):
            if self._offers_episub:
                await self._attached().stop_auto_connector()
            self._attached().peers.queue_opened(peer_id)

    async def send_recent_messages(self, peer_id: ID, topic: str) -> None:
        with self._counters.guarded("send_recent_messages"):
            peer = self._attached().peers.look_at_side(peer_id)
            if peer.side is PeerSide.EPISUB:
                self._attached().payloads.replay(peer, topic)
            elif self._bridge is not None:
                await self._bridge.replay(peer_id, topic)

    async def on_peer_subscribed(self, peer_id: ID, topic: str) -> None:
        with self._counters.guarded("on_peer_subscribed"):
            peer = self._attached().peers.look_at_side(peer_id)
            if peer.side is PeerSide.EPISUB:
                self._attached().topics.feed(topic, ContactsFound((peer.key,)))
            elif self._bridge is not None:
                await self._bridge.peer_subscribed(peer_id, topic)

    async def handle_rpc(self, rpc: rpc_pb2.RPC, sender_peer_id: ID) -> None:
        with self._counters.guarded("handle_rpc"):
            node = self._attached()
            # ResilientPubsub has looked at the record, and taken it out.
            if rpc.HasField("senderRecord") and (
                record_excess(rpc.senderRecord)
                or not _stock.maybe_consume_signed_record(rpc, node.host, sender_peer_id)
            ):
                return
            peer = node.peers[sender_peer_id.to_bytes()]
            if self._offers_episub:
                if node.inbound.receive(peer, rpc):
                    return
                if announces_episub(rpc):
                    node.peers.note_episub(peer)
            if self._bridge is not None and peer.side is not PeerSide.EPISUB:
                await self._bridge.receive(rpc, sender_peer_id)
            else:
                self._counters.add(Ordinary.NOT_EPISUB)

    async def publish(self, msg_forwarder: ID, pubsub_msg: rpc_pb2.Message) -> None:
        if self._pubsub is not None and msg_forwarder == self._pubsub.my_id:
            # The stock class asks for nothing before it delivers a message here; once stopped
            # itself, it still delivers to its own subscriptions.
            if self._pubsub.manager.is_running:
                self._check_running()
            self.check_message_size(pubsub_msg)
        for side in self._sides:
            with self._counters.guarded("publish"):
                await side.publish(msg_forwarder, pubsub_msg)

    def payload_rejected(
        self, msg_forwarder: ID, pubsub_msg: rpc_pb2.Message, forged: bool
    ) -> None:
        """A copy was not accepted; `ResilientPubsub` calls it. `forged`: its author didn't sign
        it."""
        with self._counters.guarded("payload_rejected"):
            self._attached().payloads.reject(msg_forwarder, pubsub_msg, forged)

    def reader_behind(self, topic: str, dropped: int) -> None:
        """A subscription has no room; `ResilientPubsub` calls it."""
        self._attached().events.emit(ReaderBehind(topic, dropped))

    def leave_out_history(self, topic: str) -> None:
        """The next `join` of `topic` is to bring nothing old; `ResilientPubsub.subscribe` calls
        it."""
        if self._offers_episub:  # Others never join.
            self._attached().topics.without_history.add(topic)

    async def join(self, topic: str) -> None:
        for side in self._sides:
            with self._counters.guarded("join"):
                await side.join(topic)

    async def leave(self, topic: str) -> None:
        for side in self._sides:
            with self._counters.guarded("leave"):
                await side.leave(topic)

    def supports_v13_features(self, peer_id: ID) -> bool:
        """Pubsub looks for this name before it lets us announce extensions."""
        return self.peer_protocol.get(peer_id) in _WITH_EXTENSIONS

    def _check_running(self) -> None:
        with suppress(LifecycleError):
            if self.get_manager().is_running:
                return
        raise RouterNotRunning

    def _attached(self) -> NodeParts:
        if self._node is None:
            raise RuntimeError("the router isn't attached to a Pubsub")
        return self._node


def _not_subscribed(topic: str, joined: Iterable[str]) -> KeyError:
    names = ", ".join(map(repr, sorted(joined)[:_NAMED])) or "none"
    return KeyError(f"nobody here subscribed to {topic!r}; the topics of this node: {names}")


def _union(one: dict[str, set[ID]], other: dict[str, set[ID]]) -> dict[str, set[ID]]:
    """Both, topic by topic."""
    # Copies first: other threads read this, of asyncio's loop or of the metrics.
    union = {topic: set(peers) for topic, peers in list(one.items())}
    for topic, peers in list(other.items()):
        union.setdefault(topic, set()).update(peers)
    return union
