"""Episub's side of a node: the parts behind `EpisubRouter`'s hooks, around one Pubsub."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import suppress
from enum import Enum
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
from episub_router.net.connections.dialer import Dialer
from episub_router.net.connections.idle import IdleConnections
from episub_router.net.connections.silence import SilenceWatch
from episub_router.net.counters import ORDINARY, Counters, Reason
from episub_router.net.discovery.bootstrap import Bootstrap
from episub_router.net.discovery.rendezvous import Rendezvous
from episub_router.net.discovery.source import Discovery
from episub_router.net.driver import Driver
from episub_router.net.fanout import Fanout, Replay
from episub_router.net.groups import address_prefix
from episub_router.net.inbound.leave_proof import sign_leave
from episub_router.net.inbound.receiver import Inbound
from episub_router.net.mesh import Mesh
from episub_router.net.outbound.framer import Framer
from episub_router.net.outbound.outbox import Outbox
from episub_router.net.outbound.publish_room import PublishRoom
from episub_router.net.params import RouterParams
from episub_router.net.peer import RemotePeer
from episub_router.net.peer_table import PeerListener, PeerTable
from episub_router.net.pieces.large_messages import LargeMessages
from episub_router.net.ping import Pinger
from episub_router.net.sight.bootstrap import BootstrapWatch
from episub_router.net.sight.events import (
    Alone,
    Banned,
    Joined,
    MessageLost,
    NeighborDown,
    NeighborUp,
    TopicEvents,
)
from episub_router.net.sight.warnings import CapacityWarnings
from episub_router.protocol import events as ev
from episub_router.protocol.effects import Assembled, DropReason
from episub_router.protocol.hyparview.join import CONTACTS_ASKED
from episub_router.protocol.messages import Gossip, Message
from episub_router.protocol.params import EpisubParams
from episub_router.publishing import MessageTooLarge
from episub_router.trace.node import NodeTrace
from episub_router.trace.node.overlay import OverlayTrace
from episub_router.wire import source_id


class EpisubService(PeerListener):
    """Serves the peers that speak Episub. Its methods are called by the router's hooks, and may
    raise; the router catches."""

    def __init__(
        self,
        pubsub: Pubsub,
        peers: PeerTable,
        counters: Counters,
        params: EpisubParams,
        router_params: RouterParams,
        bootstrap: Bootstrap,
        discovery: Sequence[Discovery],
        rng: Random,
        may_ban: Callable[[str, ID], bool] | None = None,
        protected_topics: Container[str] = (),
    ) -> None:
        self._pubsub = pubsub
        self.host = pubsub.host
        self._peers = peers
        self._params = router_params
        self._may_ban = may_ban
        self._contacts_asked = CONTACTS_ASKED
        self._has_sources = bool(bootstrap.peers or discovery)
        self._bootstrap = {info.peer_id.to_bytes(): tuple(info.addrs) for info in bootstrap.peers}
        self.me = pubsub.my_id.to_bytes()
        self._trace: NodeTrace | None = None
        self.counters = counters
        self._warnings = CapacityWarnings()
        counters.on_add = self._warnings.counted
        self.mesh = Mesh()
        self.events = TopicEvents()
        self.bootstrap_watch = BootstrapWatch(
            self.me, self._bootstrap, lambda: self.mesh.neighbors, self.events
        )
        self.book = book = AddressBook(in_use=lambda peer: self.driver.is_in_a_view(peer))
        self.fanout = Fanout(router_params.fanout_degree, rng)
        self._replay = Replay()
        self.framer = Framer(pubsub.host, book, counters)
        # Listeners are notified in this order: the topics' machines before what waits is sent.
        peers.listen(self)
        self.driver = Driver(self.me, params, peers, rng, counters, self, protected_topics)
        peers.listen(self.bootstrap_watch)
        silence = SilenceWatch(pubsub.host, peers, self.mesh.everyone, self.driver.peer_silent)
        self.outbox = Outbox(peers, router_params, counters, silence)
        self.room = PublishRoom(router_params, params.broadcast.piece_threshold, self.driver.query)
        self.large = LargeMessages(
            pubsub, counters, params.broadcast.piece_threshold, router_params.max_message_size
        )
        self.room.add_receivers(self._pushed_to)
        self._dialer = Dialer(
            pubsub, peers, router_params, counters, self._addresses, self._teller_of
        )
        self._idle = IdleConnections(pubsub.host, peers, counters, self._is_needed)
        self._rendezvous = Rendezvous(
            self.me,
            [*([bootstrap] if bootstrap.peers else []), *discovery],
            counters,
            Random(rng.getrandbits(64)),
            self._add_contacts,
        )
        self._pinger = Pinger(pubsub.host, counters, self.driver.rtt_measured)
        self.inbound = Inbound(
            pubsub, counters, book, peers, self.driver, self.framer, self.outbox, self.large
        )

    def trace_to(self, trace: NodeTrace) -> None:
        """Trace what happens here."""
        overlay = OverlayTrace(trace, ORDINARY)
        self.driver.observer = overlay

        def counted(reason: Enum, count: int) -> None:
            self._warnings.counted(reason, count)
            overlay.counted(reason, count)

        self.counters.on_add = counted
        self._trace = trace

    def counts(self) -> Mapping[str, int]:
        """Every counter by name."""
        refused = {fault.value: count for fault, count in self.book.refused.items()}
        return MappingProxyType({**self.counters.view(), **refused})

    async def run(self) -> None:
        """Run timers, dials, pings and look-ups until cancelled; the outbox runs by itself."""
        await self.stop_auto_connector()
        parts = self.driver, self._dialer, self._idle, self._pinger, self._rendezvous
        try:
            async with trio.open_nursery() as nursery:
                for part in parts:
                    nursery.start_soon(part.run)
        finally:
            # Pubsub may go on calling hooks; with the machines gone, they do nothing.
            self.driver.stop()
            self.mesh.neighbors.clear()

    async def stop_auto_connector(self) -> None:
        """Keep py-libp2p from dialling what the overlay let go; a host that is started later
        starts it again."""
        network = self._pubsub.host.get_network()
        if isinstance(network, Swarm) and not self._params.keep_auto_connector:
            await network.auto_connector.stop()

    # Transitions of peers

    def peer_writable(self, peer: RemotePeer) -> None:
        """Learn its record while the peerstore has it."""
        self.framer.record(peer.key)

    def stream_lost(self, peer: RemotePeer) -> None:
        """Publish to others."""
        peer.send_window.forget()
        self.fanout.remove(peer.id)

    # Pubsub's hooks

    def why_alone(self, topic: str) -> list[str]:
        """What speaks against neighbours in `topic`, one line each."""
        failures = self.bootstrap_watch.failures
        reasons = [f"{address}: {reason}" for address, reason in failures.items()]
        speakers = self._peers.writable()
        there = self._subscribers(topic)
        if there:
            reasons.append(f"{len(there)} connected peers are in the topic; links are being made")
        elif speakers:
            reasons.append(f"{len(speakers)} connected peers speak Episub; none is in {topic!r}")
        elif not self._has_sources:
            reasons.append("no bootstrap address, no discovery, and no connected peer")
        return reasons or ["no peer has been found yet"]

    def has_peers(self, topic: str) -> bool:
        """Whether a writable peer in `topic` speaks Episub."""
        return bool(self._subscribers(topic))

    def peer_subscribed(self, peer: RemotePeer, topic: str) -> None:
        """`peer` announced that it is in `topic`."""
        if self.driver.joined(topic) is not None:
            self.driver.feed(topic, ev.ContactsFound((peer.key,)))

    def takes_in_pieces(self, message: rpc_pb2.Message) -> bool:
        """Whether `message` of this node goes in pieces. Raises MessageTooLarge if even those would
        be too many."""
        if not self.large.threshold or len(message.topicIDs) != 1:
            return False
        size = message.ByteSize()
        is_joined = self.driver.joined(message.topicIDs[0]) is not None
        if not is_joined or not self.large.goes_in_pieces(message, size):
            return False
        if size > self.large.max_size:
            raise MessageTooLarge(size, self.large.max_size, "pieces", "max_message_size")
        return True

    def publish(self, forwarder: ID, message: rpc_pb2.Message) -> None:
        """`message` is valid: our own, or the first copy of another node's."""
        message_id = self._pubsub.get_message_id(message)
        size = message.ByteSize()
        peer = forwarder.to_bytes()
        own = peer == self.me
        source = source_id(message.from_id)
        for topic in dict.fromkeys(message.topicIDs):
            if self.driver.joined(topic) is None:
                if own:
                    self._publish_fanout(topic, Gossip(message_id, 1, message, size))
            elif own:
                self.counters.add(Reason.PUBLISHED)
                if not self.mesh.neighbors.get(topic):
                    self._replay.remember(topic, Gossip(message_id, 1, message, size))
                self.driver.feed(
                    topic,
                    self.large.cut(message, message_id, size)
                    or ev.Publish(message_id, message, size, source),
                )
            else:
                self.driver.feed(topic, ev.PayloadAccepted(peer, message_id, message, size, source))

    def reject(self, forwarder: ID, message: rpc_pb2.Message, forged: bool) -> None:
        """A copy of `message` was not accepted."""
        message_id = self._pubsub.get_message_id(message)
        for topic in dict.fromkeys(message.topicIDs):
            machine = self.driver.joined(topic)
            if machine is None:
                continue
            if machine.pieces is not None and message_id in machine.pieces:
                # Its author signed what it is made of; those that passed it on couldn't tell.
                forged = False
            self.driver.feed(topic, ev.PayloadRejected(forwarder.to_bytes(), message_id, forged))

    def join(self, topic: str) -> None:
        """Enter the overlay of `topic` through connected subscribers, and where they are too few
        to check one another, through the bootstrap list; discovery may find more."""
        self.fanout.leave(topic)
        self.mesh.join(topic)
        contacts = [peer.to_bytes() for peer in self._subscribers(topic)]
        if len(contacts) < self._contacts_asked:
            contacts += self._bootstrap
        self.bootstrap_watch.joined(topic)
        self.driver.join(topic, tuple(contacts))
        self._rendezvous.join(topic)

    def leave(self, topic: str) -> None:
        """Say goodbye to the neighbours in `topic`."""
        proof = sign_leave(self._pubsub.host.get_private_key(), topic, time.time_ns())
        self.outbox.forget_topic(topic)
        self.driver.leave(topic, proof)
        self._rendezvous.leave(topic)
        self.mesh.leave(topic)

    def replay(self, peer: RemotePeer, topic: str) -> None:
        """Send `peer`, a new subscriber to `topic`, what was published before it subscribed."""
        if self._peers.is_writable(peer):
            for gossip in self._replay.take(topic, peer.id):
                self._send(peer, topic, (gossip,))

    # The driver's actions

    def send(self, peer: RemotePeer, topic: str, messages: tuple[Message, ...]) -> None:
        self._peers.note_use(peer)
        self._send(peer, topic, messages)

    def dial(self, peer: RemotePeer, for_others: bool = False) -> None:
        self._peers.note_use(peer)
        self._peers.request(peer, for_others)

    def release(self, peer: RemotePeer) -> None:
        self._peers.release(peer)

    def measure(self, peer: RemotePeer) -> None:
        self._pinger.request(peer)

    def group_of(self, peer: Any) -> str | None:
        connections = self._pubsub.host.get_network().get_connections(ID(peer))
        seen = [address for c in connections for address in c.get_transport_addresses()]
        # Where it is connected from counts more than where it says that it is.
        return address_prefix([*seen, *self._addresses(peer)])

    def assembled(self, topic: str, whole: Assembled) -> None:
        self.large.take(topic, whole)

    def may_ban(self, topic: str, peer: Any) -> bool:
        with suppress(Exception):  # of the application's function
            return self._may_ban is None or bool(self._may_ban(topic, ID(peer)))
        return False

    def banned(self, topic: str, peer: RemotePeer, seconds: float) -> None:
        self.counters.add(Reason.BANS)
        self._peers.ban(peer, seconds)
        self.events.emit(Banned(topic, peer.id, seconds))

    def dropped(self, topic: str, reason: DropReason) -> None:
        if reason is DropReason.MESSAGE_LOST:
            self.events.emit(MessageLost(topic))

    def neighbor_up(self, topic: str, peer: RemotePeer) -> None:
        self._peers.note_use(peer)
        self._pubsub.host.get_network().protect(peer.id, _protection(topic))
        self.mesh.up(topic, peer.id)
        count = len(self.mesh.neighbors[topic])
        self.events.emit(NeighborUp(topic, peer.id, count))
        if count == 1:
            self.events.emit(Joined(topic))

    def neighbor_down(self, topic: str, peer: RemotePeer) -> None:
        self._pubsub.host.get_network().unprotect(peer.id, _protection(topic))
        peer.forget_topic(topic)
        self.mesh.down(topic, peer.id)
        left = len(self.mesh.neighbors.get(topic, ()))
        self.events.emit(NeighborDown(topic, peer.id, left))
        if not left:
            self.events.emit(Alone(topic))
            self._rendezvous.look_again(topic)

    # What the parts ask and report

    def _addresses(self, peer: bytes) -> tuple[Multiaddr, ...]:
        discovered = self._rendezvous.addresses(peer)
        return self.book.addresses(peer) + self._bootstrap.get(peer, ()) + discovered

    def _pushed_to(self, topic: str) -> list[RemotePeer]:
        """Those that a message of ours in `topic` goes to at once."""
        machine = self.driver.joined(topic)
        if machine is None:
            return [self._peers[peer.to_bytes()] for peer in self.fanout.peers.get(topic, ())]
        keys: Any = dict.fromkeys(machine.broadcast.publishes_to())
        if machine.pieces is not None:
            keys |= dict.fromkeys(machine.pieces.publishes_to())
        return [self._peers[key] for key in keys]

    def _teller_of(self, peer: bytes) -> bytes | None:
        """The peer on whose word alone we know `peer`."""
        by_others = self._bootstrap.get(peer) or self._rendezvous.addresses(peer)
        return None if by_others else self.book.teller(peer)

    def _is_needed(self, peer: RemotePeer) -> bool:
        return (
            any(peer.id in neighbors for neighbors in self.mesh.neighbors.values())
            or peer.request is not None
            or bool(peer.backlog or peer.pieces)
        )

    def _add_contacts(self, topic: str, contacts: tuple[bytes, ...]) -> None:
        self.counters.add(Reason.CONTACTS_FOUND, len(contacts))
        self.driver.feed(topic, ev.ContactsFound(contacts))

    def _send(self, peer: RemotePeer, topic: str, messages: tuple[Message, ...]) -> None:
        frame = self.framer.frame(peer, topic, messages)
        if frame.piece is not None:
            more = self.driver.more_pieces(topic, frame.piece, peer.key)
            self.outbox.send_piece(peer, frame.piece, frame, more)
            return
        if self.outbox.send(peer, frame) or frame.gossip is None:
            return
        gossip = frame.gossip
        if self._trace is not None:
            self._trace.payload_dropped(gossip.id, topic, gossip.size, peer.key)
        self.driver.feed(topic, ev.PayloadDropped(peer.key, gossip.id, gossip.hops))

    def _subscribers(self, topic: str) -> list[ID]:
        """Writable subscribers that speak Episub, in an order that doesn't depend on hashing."""
        subscribers = self._pubsub.peer_topics.get(topic, ())
        return sorted(
            (p for p in subscribers if self._peers.is_writable(self._peers[p.to_bytes()])),
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
            self._send(self._peers[peer.to_bytes()], topic, (gossip,))


def _protection(topic: str) -> str:
    return f"episub/{topic}"
