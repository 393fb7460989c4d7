"""The router's parts, put together around one Pubsub."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from random import Random
from types import MappingProxyType
from typing import Any

import trio
from libp2p.network.swarm import Swarm
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub
from multiaddr import Multiaddr

from episub_router.net.address_book import AddressBook
from episub_router.net.connections import Connections
from episub_router.net.counters import ORDINARY, Counters, Reason
from episub_router.net.dialer import Dialer
from episub_router.net.discovery.bootstrap import Bootstrap
from episub_router.net.discovery.rendezvous import Rendezvous
from episub_router.net.discovery.source import Discovery
from episub_router.net.driver import Driver
from episub_router.net.fanout import Fanout, Replay
from episub_router.net.framer import Framer
from episub_router.net.groups import address_prefix
from episub_router.net.inbound import Inbound
from episub_router.net.leave_proof import sign_leave
from episub_router.net.mesh import Mesh
from episub_router.net.outbox import Outbox
from episub_router.net.params import RouterParams
from episub_router.net.peers import PROTOCOL_ID, Peers
from episub_router.net.ping import Pinger
from episub_router.net.view import PubsubView
from episub_router.protocol.events import (
    ContactsFound,
    PayloadAccepted,
    PayloadDropped,
    Publish,
)
from episub_router.protocol.hyparview.join import CONTACTS_ASKED
from episub_router.protocol.messages import Gossip, Message
from episub_router.protocol.params import EpisubParams
from episub_router.trace.node import NodeTrace
from episub_router.trace.node.overlay import OverlayTrace

_LONGEST_ID = 64
"""Bytes of a source's id that count; peer ids are shorter, unsigned messages may name anything."""


class Engine:
    """Everything behind `EpisubRouter`'s hooks. Its methods are called by those hooks, and may
    raise; the router catches."""

    def __init__(
        self,
        pubsub: Pubsub,
        peers: Peers,
        params: EpisubParams,
        router_params: RouterParams,
        bootstrap: Bootstrap,
        discovery: Sequence[Discovery],
        rng: Random,
        episub_frame: Callable[[ID], None],
    ) -> None:
        """`episub_frame` is told of the sender of each frame."""
        self._pubsub = pubsub
        self._peers = peers
        self._episub_frame = episub_frame
        self._params = router_params
        self.host = pubsub.host
        self._contacts_asked = CONTACTS_ASKED
        self._bootstrap = {info.peer_id.to_bytes(): tuple(info.addrs) for info in bootstrap.peers}
        self.me = pubsub.my_id.to_bytes()
        self._trace: NodeTrace | None = None
        self.counters = counters = Counters()
        self.mesh = Mesh()
        self.book = book = AddressBook()
        self.fanout = Fanout(router_params, rng)
        self._replay = Replay(router_params)
        self.driver = Driver(self.me, params, router_params, rng, counters, self)
        self._framer = Framer(pubsub.host, book)
        self._outbox = Outbox(
            PubsubView(pubsub, peers.speaks_episub),
            router_params,
            counters,
            self._framer.encode,
            self._on_payload_dropped,
        )
        self._dialer = Dialer(
            pubsub,
            [PROTOCOL_ID],
            router_params,
            counters,
            addresses=self._addresses,
            opened=self._on_dialled,
            failed=self._on_dial_failed,
        )
        self._connections = Connections(
            pubsub.host, [PROTOCOL_ID], router_params, counters, self._needed
        )
        self._rendezvous = Rendezvous(
            self.me,
            [*([bootstrap] if bootstrap.peers else []), *discovery],
            router_params,
            counters,
            Random(rng.getrandbits(64)),
            self._on_found,
        )
        self._pinger = Pinger(pubsub.host, router_params, counters, self.driver.measured)
        self._inbound = Inbound(
            pubsub, router_params, counters, book, self.driver, self._on_frame_from, self._answer
        )

    def trace_to(self, trace: NodeTrace) -> None:
        """Have `trace` told of what happens here."""
        overlay = OverlayTrace(trace, ORDINARY)
        self.driver.observer = overlay
        self.counters.on_add = overlay.counted
        self._trace = trace

    def counts(self) -> Mapping[str, int]:
        """Every counter by name."""
        refused = {fault.value: count for fault, count in self.book.refused.items()}
        return MappingProxyType({**self.counters.view(), **refused})

    async def run(self) -> None:
        """Run timers, dials, pings and retries until cancelled."""
        await self._stop_auto_connector()
        try:
            async with trio.open_nursery() as nursery:
                for part in (
                    self.driver,
                    self._outbox,
                    self._dialer,
                    self._connections,
                    self._pinger,
                    self._rendezvous,
                ):
                    nursery.start_soon(part.run)
        finally:
            # Pubsub may go on calling hooks; with the machines gone, they do nothing.
            self.driver.stop()
            self.mesh.neighbors.clear()

    async def _stop_auto_connector(self) -> None:
        network = self._pubsub.host.get_network()
        if isinstance(network, Swarm) and not self._params.keep_auto_connector:
            await network.auto_connector.stop()

    # Pubsub's hooks

    async def peer_writable(self, peer: ID) -> None:
        """Pubsub has a queue for `peer` now, or heard of a new subscription of its."""
        # Again, since the host may have been started after the router.
        await self._stop_auto_connector()
        self._open(peer.to_bytes())

    def _on_frame_from(self, peer: bytes) -> None:
        self._episub_frame(ID(peer))
        self._open(peer)

    def _open(self, peer: bytes) -> None:
        """`peer` speaks Episub: use it, if it is writable, and hasn't been in use already."""
        if self.driver.is_writable(peer) or not self._outbox.is_writable(peer):
            return
        self._framer.record(peer)
        self._dialer.writable(peer)
        self.driver.writable(peer)
        self._outbox.flush(peer)

    def has_peers(self, topic: str) -> bool:
        """Whether a writable peer in `topic` speaks Episub."""
        return bool(self._subscribers(topic))

    def spoke_episub(self, peer: ID) -> None:
        """`peer` said without a frame that it speaks Episub."""
        self._open(peer.to_bytes())

    def peer_removed(self, peer: ID) -> None:
        """Pubsub's stream to `peer` is gone, perhaps with the connection."""
        key = peer.to_bytes()
        self.fanout.remove(peer)
        if self._dialer.is_connected(peer):
            if not self._peers.speaks_episub(peer):
                return
            # Of two connections that crossed, one goes, and Pubsub opens a stream on the other.
            # What waits is held; if no stream comes, the dialer says so.
            self.driver.interrupted(key)
            self._dialer.request(key)
            return
        self._peers.disconnected(peer)
        self._outbox.discard(key)
        self._connections.closed(key)
        self._inbound.disconnected(key)
        self.driver.down(key)

    def peer_subscribed(self, peer: ID, topic: str) -> None:
        """`peer` announced that it is in `topic`."""
        if self.driver.joined(topic) is not None:
            self.driver.feed(topic, ContactsFound((peer.to_bytes(),)))

    def received(self, rpc: rpc_pb2.RPC, sender: ID) -> bool:
        """An RPC with control messages came from `sender`; False if it wasn't for us."""
        return self._inbound.receive(rpc, sender)

    def publish(self, forwarder: ID, message: rpc_pb2.Message) -> None:
        """`message` is valid: our own, or the first copy of somebody else's."""
        message_id = self._pubsub.get_message_id(message)
        size = message.ByteSize()
        peer = forwarder.to_bytes()
        own = peer == self.me
        source = message.from_id[:_LONGEST_ID] or None
        for topic in dict.fromkeys(message.topicIDs):
            if self.driver.joined(topic) is None:
                if own:
                    self._publish_fanout(topic, Gossip(message_id, 1, message, size))
            elif own:
                self.counters.add(Reason.PUBLISHED)
                if not self.mesh.neighbors.get(topic):
                    self._replay.remember(topic, Gossip(message_id, 1, message, size))
                self.driver.feed(topic, Publish(message_id, message, size, source))
            else:
                self.driver.feed(topic, PayloadAccepted(peer, message_id, message, size, source))

    def join(self, topic: str) -> None:
        """Enter the overlay of `topic` through connected subscribers, and where they are too few
        to check one another, through the bootstrap list; discovery may find more."""
        self.fanout.leave(topic)
        self.mesh.join(topic)
        contacts = [peer.to_bytes() for peer in self._subscribers(topic)]
        if len(contacts) < self._contacts_asked:
            contacts += self._bootstrap
        self.driver.join(topic, tuple(contacts))
        self._rendezvous.join(topic)

    def leave(self, topic: str) -> None:
        """Say goodbye to the neighbours in `topic`."""
        proof = sign_leave(self._pubsub.host.get_private_key(), topic, time.time_ns())
        self._outbox.leave(topic)
        self.driver.leave(topic, proof)
        self._rendezvous.leave(topic)
        self.mesh.leave(topic)

    def replay(self, peer: ID, topic: str) -> None:
        """Send `peer`, which has subscribed to `topic`, what was published to nobody."""
        key = peer.to_bytes()
        if self._outbox.is_writable(key):
            for gossip in self._replay.take(topic, peer):
                self._outbox.send(key, topic, (gossip,))

    # The driver's actions

    def send(self, peer: bytes, topic: str, messages: tuple[Message, ...]) -> None:
        self._connections.used(peer)
        if not self._outbox.send(peer, topic, messages):
            self._dialer.request(peer)

    def dial(self, peer: bytes, for_others: bool = False) -> None:
        self._connections.used(peer)
        self._dialer.request(peer, for_others=for_others)

    def release(self, peer: bytes) -> None:
        self._connections.release(peer)

    def measure(self, peer: bytes) -> None:
        self._pinger.request(peer)

    def group_of(self, peer: Any) -> str | None:
        connections = self._pubsub.host.get_network().get_connections(ID(peer))
        seen = [address for c in connections for address in c.get_transport_addresses()]
        # Where it is connected from counts more than where it says that it is.
        return address_prefix([*seen, *self._addresses(peer)], self._params)

    def neighbor_up(self, topic: str, peer: bytes) -> None:
        neighbor = ID(peer)
        self._connections.used(peer)
        self._pubsub.host.get_network().protect(neighbor, _protection(topic))
        self.mesh.up(topic, neighbor)

    def neighbor_down(self, topic: str, peer: bytes) -> None:
        neighbor = ID(peer)
        self._pubsub.host.get_network().unprotect(neighbor, _protection(topic))
        self.mesh.down(topic, neighbor)
        if not self.mesh.neighbors.get(topic):
            self._rendezvous.alone(topic)

    # The parts' questions and reports

    def _addresses(self, peer: bytes) -> tuple[Multiaddr, ...]:
        found = self._rendezvous.addresses(peer)
        return self.book.addresses(peer) + self._bootstrap.get(peer, ()) + found

    def _needed(self, peer: bytes) -> bool:
        neighbor = ID(peer)
        return (
            any(neighbor in peers for peers in self.mesh.neighbors.values())
            or peer in self._dialer
            or self._outbox.holds(peer)
        )

    def _on_dialled(self, peer: bytes) -> None:
        self._connections.opened(peer)

    def _on_dial_failed(self, peer: bytes) -> None:
        self.driver.unreachable(peer)
        if self._outbox.discard(peer) or self.driver.is_interrupted(peer):
            self.driver.down(peer)
        if not self._dialer.is_connected(ID(peer)):
            self._connections.closed(peer)
            self._inbound.disconnected(peer)

    def _on_found(self, topic: str, contacts: tuple[bytes, ...]) -> None:
        self.counters.add(Reason.CONTACTS_FOUND, len(contacts))
        self.driver.feed(topic, ContactsFound(contacts))

    def _on_payload_dropped(self, peer: bytes, topic: str, gossip: Gossip) -> None:
        if self._trace is not None:
            self._trace.payload_dropped(gossip.id, topic, gossip.size, peer)
        self.driver.feed(topic, PayloadDropped(peer, gossip.id, gossip.hops))

    def _answer(self, peer: bytes, topic: str, messages: tuple[Message, ...]) -> None:
        if self._outbox.is_writable(peer):
            self._outbox.send(peer, topic, messages)

    def _subscribers(self, topic: str) -> list[ID]:
        """Writable subscribers that speak Episub, in an order that doesn't depend on hashing."""
        subscribers = self._pubsub.peer_topics.get(topic, ())
        return sorted(
            (p for p in subscribers if p in self._pubsub.peers and self._peers.speaks_episub(p)),
            key=ID.to_bytes,
        )

    def _publish_fanout(self, topic: str, gossip: Gossip) -> None:
        self.counters.add(Reason.PUBLISHED)
        chosen = self.fanout.choose(topic, self._subscribers(topic))
        if not self._pubsub.peer_topics.get(topic):
            self.counters.add(Reason.FANOUT_EMPTY)
        if len(chosen) < self._params.fanout_degree:
            self._replay.remember(topic, gossip, chosen)
        for peer in chosen:
            self._outbox.send(peer.to_bytes(), topic, (gossip,))


def _protection(topic: str) -> str:
    return f"episub/{topic}"
