"""The gossipsub side of a node: which peers it has, and what crosses over."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import trio
from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID
from libp2p.pubsub.extensions import ExtensionsState
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from episub_router.fallback.backlog import PatientQueues
from episub_router.fallback.contained import ContainedGossipSub
from episub_router.fallback.exchange import Exchange
from episub_router.fallback.params import FallbackParams
from episub_router.fallback.view import GossipView
from episub_router.net.address_book import AddressBook
from episub_router.net.counters import Counters, Reason
from episub_router.net.params import RouterParams

logger = logging.getLogger(__name__)


class Bridge:
    """Serves peers without Episub through an embedded GossipSub.

    Pubsub hands each message to the router once, whichever side it came from; `publish` takes
    it to this side. Its methods may raise; the router catches.
    """

    def __init__(
        self,
        pubsub: Pubsub,
        params: FallbackParams,
        router_params: RouterParams,
        extensions: ExtensionsState,
        counters: Counters,
        book: AddressBook,
        meshed: Callable[[str, ID], None],
        bridges: Callable[[str], bool],
    ) -> None:
        """`meshed` is told of each new mesh link, by topic and peer; `bridges` tells of a topic
        whether this node has Episub peers in it."""
        self._pubsub = pubsub
        self._params = params
        self._counters = counters
        self._exchange = Exchange(pubsub.host, book, router_params)
        self._gossip = ContainedGossipSub(
            params, extensions, pubsub.get_message_id, meshed, self._exchange.named, bridges
        )
        view: Any = GossipView(pubsub, self.serves, router_params, counters)
        self._gossip.attach(view)
        self._queues: PatientQueues = view.peer_queues

    def serves(self, peer: ID) -> bool:
        """Whether `peer` is on this side."""
        return peer in self._gossip.peer_protocol

    @property
    def mesh(self) -> dict[str, set[ID]]:
        """Joined topics and the mesh of each on this side."""
        return self._gossip.mesh

    @property
    def fanout(self) -> dict[str, set[ID]]:
        """Topics published to without joining, and the peers of this side chosen for each."""
        return self._gossip.fanout

    async def run(self) -> None:
        """Heartbeats, dials, and retries of what there was no room for, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._exchange.run)
            nursery.start_soon(self._queues.run)
            nursery.start_soon(self._heartbeats)

    async def _heartbeats(self) -> None:
        while True:
            try:
                await self._gossip.heartbeat()
            except Exception:
                self._counters.add(Reason.ERROR)
                if self._counters[Reason.ERROR] == 1:
                    logger.exception("a GossipSub heartbeat failed")
            await trio.sleep(self._params.heartbeat_interval)

    def add_peer(self, peer: ID, protocol: TProtocol) -> None:
        """`peer` has a stream over one of `params.protocols`, and speaks no Episub."""
        self._gossip.add_peer(peer, protocol)

    def remove_peer(self, peer: ID) -> None:
        """`peer` is gone, or has turned out to speak Episub."""
        self._gossip.remove_peer(peer)
        self._queues.forget(peer)

    async def peer_subscribed(self, peer: ID, topic: str) -> None:
        if self.serves(peer):
            await self._gossip.on_peer_subscribed(peer, topic)

    async def replay(self, peer: ID, topic: str) -> None:
        """Send `peer` the messages of the last heartbeats."""
        if self.serves(peer):
            await self._gossip.send_recent_messages(peer, topic)

    async def received(self, rpc: rpc_pb2.RPC, sender: ID) -> None:
        """Act on gossipsub control messages."""
        if self._pubsub.is_peer_blacklisted(sender):
            self._counters.add(Reason.BLACKLISTED)
        else:
            await self._gossip.handle_rpc(rpc, sender)

    async def publish(self, forwarder: ID, message: rpc_pb2.Message) -> None:
        """Send a valid message, ours or anybody's, to the peers of this side, once."""
        # Under the stock Pubsub copies that are validated side by side all get here.
        if self._pubsub.get_message_id(message) not in self._gossip.mcache:
            await self._gossip.publish(forwarder, message)

    async def join(self, topic: str) -> None:
        await self._gossip.join(topic)

    async def leave(self, topic: str) -> None:
        await self._gossip.leave(topic)
