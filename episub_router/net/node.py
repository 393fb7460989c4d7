"""The parts of a node, and how they are joined; `EpisubRouter`'s hooks call them.

docs/design.md has the way of a message through them, in and out.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping, Sequence
from functools import partial
from hashlib import sha256
from random import Random
from typing import Any

import trio
from libp2p.network.swarm import Swarm
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo
from libp2p.peer.peerstore import PERMANENT_ADDR_TTL
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from episub_router.addresses import address_prefix
from episub_router.net.address_book import AddressBook
from episub_router.net.connections.dialer import Dialer
from episub_router.net.connections.idle import IdleConnections
from episub_router.net.connections.ping import Pinger
from episub_router.net.connections.silence import SilenceWatch
from episub_router.net.counters import Counters, DropLog, Ordinary
from episub_router.net.discovery.bootstrap import Bootstrap
from episub_router.net.discovery.rendezvous import Discovery, Rendezvous
from episub_router.net.events import TopicEvents
from episub_router.net.framer import Framer
from episub_router.net.inbound import Inbound
from episub_router.net.large_messages import LargeMessages
from episub_router.net.outbound import Outbound
from episub_router.net.params import RouterParams
from episub_router.net.payloads import Payloads
from episub_router.net.peers import PeerTable
from episub_router.net.publish_room import PublishRoom
from episub_router.net.tasks import Tasks
from episub_router.net.topics import JoinedTopic, TopicDriver, is_in_a_view
from episub_router.protocol.hyparview import CONTACTS_ASKED
from episub_router.protocol.params import EpisubParams
from episub_router.trace.node import NodeTrace
from episub_router.trace.node.overlay import OverlayTrace
from episub_router.wire.leave_proof import sign_leave

_DIRECT_FIRST_AFTER = 0.1
"""Seconds; py-libp2p: direct_connect_initial_delay."""


class NodeParts:
    """Everything around one Pubsub that serves the peers that speak Episub."""

    def __init__(
        self,
        pubsub: Pubsub,
        params: EpisubParams,
        router_params: RouterParams,
        *,
        counters: Counters,
        bootstrap: Sequence[PeerInfo],
        discovery: Sequence[Discovery],
        rng: Random,
        may_ban: Callable[[str, ID], bool] | None,
        protected_topics: Container[str],
    ) -> None:
        self._params = router_params
        self._has_sources = bool(bootstrap or discovery)
        self.host = host = pubsub.host
        me = pubsub.my_id.to_bytes()
        threshold = params.broadcast.piece_threshold
        joined: dict[str, JoinedTopic] = {}
        self.counters = counters
        counters.listen(DropLog().counted)
        self.peers = peers = PeerTable(pubsub, router_params, counters)
        self.events = TopicEvents()
        self._bootstrap = Bootstrap(peers[me], bootstrap, joined, self.events)
        self.book = AddressBook(in_use=partial(is_in_a_view, joined))
        for peer, addresses in self._bootstrap.addresses.items():
            self.book.found(peer, addresses)
        self.framer = Framer(host, self.book, counters)
        silence = SilenceWatch(host, peers)
        self.tasks = tasks = Tasks(counters)
        pinger = Pinger(host, counters, tasks)
        most = router_params.max_message_size
        self.large = large = LargeMessages(pubsub, counters, self.events, joined, threshold, most)
        self.outbound = Outbound(
            peers, self.framer, router_params, counters, large.pieces_sent, silence
        )
        self.topics = TopicDriver(
            me,
            params,
            joined,
            rng=rng,
            counters=counters,
            peers=peers,
            outbound=self.outbound,
            pinger=pinger,
            assembled=large.take,
            network=host.get_network(),
            events=self.events,
            group_of=self._group_of,
            secret=sha256(b"episub-rounds" + host.get_private_key().serialize()).digest(),
            may_ban=may_ban,
            protected_topics=protected_topics,
        )
        self.payloads = Payloads(pubsub, counters, peers, self.topics, self.outbound, large, rng)
        self.inbound = Inbound(
            pubsub, counters, self.book, peers, self.topics, self.outbound, large
        )
        self.room = PublishRoom(router_params, large.may_cut, self.topics.query)
        self.room.receivers.append(self.payloads.receivers)
        self.dialer = Dialer(pubsub, peers, router_params, counters, self.book, tasks)
        self._idle = IdleConnections(host, peers, counters, tasks)
        sources = [*([self._bootstrap] if bootstrap else []), *discovery]
        seed = Random(rng.getrandbits(64))
        self.rendezvous = Rendezvous(
            me, sources, counters, seed, self.book, self.events, self.topics.contacts_found, tasks
        )
        # They are notified in this order: the topics' machines before what waits is sent.
        for part in (self.topics, self._bootstrap, self.outbound, self.dialer):
            peers.listen(part)

    def trace_to(self, trace: NodeTrace) -> None:
        overlay = OverlayTrace(trace, Ordinary)
        self.topics.trace = overlay
        self.outbound.trace = trace
        self.counters.listen(overlay.counted)

    async def run(self) -> None:
        """Run timers, and stay in the topics, until cancelled; `outbound` and `tasks` run by
        themselves."""
        await self.stop_auto_connector()
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.topics.run)
                nursery.start_soon(self._idle.run)
        finally:
            self.topics.stop()

    async def stay_connected(self, peer: PeerInfo, interval: float) -> None:
        """Keep a connection to a direct peer, whichever protocol it speaks, until cancelled: look
        every `interval` seconds whether it is gone (gossipsub v1.1)."""
        network, store = self.host.get_network(), self.host.get_peerstore()
        network.protect(peer.peer_id, "direct-peer")
        await trio.sleep(_DIRECT_FIRST_AFTER)
        while True:
            # Whatever connects to a peer limits the life of its addresses.
            store.add_addrs(peer.peer_id, peer.addrs, PERMANENT_ADDR_TTL)
            if not network.get_connections(peer.peer_id):
                await self.dialer.connect(self.peers[peer.peer_id.to_bytes()], given=peer.addrs)
            await trio.sleep(interval)

    async def stop_auto_connector(self) -> None:
        """Keep py-libp2p from dialling what the overlay let go; a host that is started later
        starts it again."""
        network = self.host.get_network()
        if isinstance(network, Swarm) and not self._params.keep_auto_connector:
            await network.auto_connector.stop()

    async def publish(self, forwarder: ID, message: rpc_pb2.Message) -> None:
        """Send a valid message, ours or anybody's, along the trees."""
        self.payloads.publish(forwarder, message)

    async def join(self, topic: str) -> None:
        """Enter the overlay of `topic` through connected subscribers, and where they are too few
        to check one another, through the bootstrap list; discovery may find more."""
        self.payloads.fanout.leave(topic)
        contacts = [peer.to_bytes() for peer in self.payloads.subscribers(topic)]
        if len(contacts) < CONTACTS_ASKED:
            contacts += self._bootstrap.addresses
        self.topics.join(topic, tuple(contacts))
        self.rendezvous.join(topic)

    async def leave(self, topic: str) -> None:
        """Say goodbye to the neighbours in `topic`."""
        proof = sign_leave(self.host.get_private_key(), topic, time.time_ns())
        self.outbound.forget_topic(topic)
        self.topics.leave(topic, proof)
        self.rendezvous.leave(topic)

    def _group_of(self, peer: Any) -> str | None:
        """The prefix that peers of one owner are likely to share with `peer`, if it is known."""
        connections = self.host.get_network().get_connections(ID(peer))
        seen = [address for c in connections for address in c.get_transport_addresses()]
        # Where it is connected from counts more than where it says that it is.
        return address_prefix([*seen, *self.book.addresses(peer)])

    # Read-only views

    def counts(self) -> Mapping[str, int]:
        """Every counter by name."""
        refused = {fault.value: count for fault, count in self.book.refused.items()}
        return {**self.counters.view(), **refused}

    def why_alone(self, topic: str) -> list[str]:
        """What speaks against neighbours in `topic`, one line each."""
        reasons = [
            f"{address}: {self.peers[key].dial_error}"
            for key, addresses in self._bootstrap.addresses.items()
            for address in addresses[:1]
            if self.peers[key].dial_error
        ]
        speakers = self.peers.writable()
        there = self.payloads.subscribers(topic)
        if there:
            reasons.append(f"{len(there)} connected peers are in the topic; links are being made")
        elif speakers:
            reasons.append(f"{len(speakers)} connected peers speak Episub; none is in {topic!r}")
        elif not self._has_sources:
            reasons.append("no bootstrap address, no discovery, and no connected peer")
        return reasons or ["no peer has been found yet"]
