"""Peers that a PRUNE names in place of its sender (gossipsub v1.1, peer exchange)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import trio
from libp2p.abc import IHost
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo
from libp2p.pubsub.pb import rpc_pb2

from episub_router.net.address_book import AddressBook
from episub_router.net.connections.dial_budget import DialBudget
from episub_router.net.connections.dialer import DIALS_AT_ONCE
from episub_router.net.params import RouterParams

_MAX_WAITING = 64
"""Peers that wait to be dialled; there is no hurry, and more will be named."""

_INFORMANT = b"peer exchange"
"""All that are named so have one share of the address book, and one budget of dials."""


class PeerExchange:
    """Connects to named peers, a few at a time, if they signed the addresses themselves."""

    def __init__(self, host: IHost, book: AddressBook, params: RouterParams) -> None:
        self._host = host
        self._book = book
        self._params = params
        self._budget = DialBudget()
        self._named, self._to_dial = trio.open_memory_channel[ID](_MAX_WAITING)

    def connect_to(self, peers: Sequence[rpc_pb2.PeerInfo]) -> None:
        """Connect to `peers`, which a PRUNE named."""
        for info in peers:
            peer = ID(info.peerID)
            if peer == self._host.get_id() or self._host.get_network().get_connections(peer):
                continue
            if self._book.learn(info.peerID, info.signedPeerRecord, _INFORMANT):
                with suppress(trio.WouldBlock):
                    self._named.send_nowait(peer)

    async def run(self) -> None:
        """Dial, until cancelled."""
        async with trio.open_nursery() as nursery:
            for _ in range(DIALS_AT_ONCE):
                nursery.start_soon(self._dial_some)

    async def _dial_some(self) -> None:
        async for peer in self._to_dial.clone():
            addresses = list(self._book.addresses(peer.to_bytes()))
            if not self._budget.take(_INFORMANT, addresses, trio.current_time()):
                continue
            # Whatever goes wrong, it was an offer.
            with suppress(Exception), trio.move_on_after(self._params.dial_timeout):
                await self._host.connect(PeerInfo(peer, addresses))
