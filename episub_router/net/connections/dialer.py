"""Making peers writable: dial, and wait for Pubsub's stream (E05, E15).

"Writable" means that Pubsub has an outbound queue for the peer, over Episub. A dial here is
over once that is so, or has failed; every request ends in one of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any

import trio
from libp2p.abc import IHost
from libp2p.peer.id import ID
from libp2p.peer.peerstore import PeerStoreError
from libp2p.pubsub.pubsub import Pubsub
from libp2p.security.noise.exceptions import PeerIDMismatchesPubkey
from multiaddr import Multiaddr

from episub_router.addresses import is_circuit
from episub_router.net.address_book import DIALLED_ADDRESSES, AddressBook
from episub_router.net.connections.circuits import dial_circuit, relay_of
from episub_router.net.connections.dial_budget import DialBudget, one_of_each_host
from episub_router.net.counters import Counters, Ordinary, Reason
from episub_router.net.params import RouterParams
from episub_router.net.peers import PROTOCOL_ID, PeerListener, PeerTable, RemotePeer
from episub_router.net.tasks import Tasks
from episub_router.util.load_aware import Pace, load_aware

_MAX_DIALS = 256
"""Peers that are dialled, or to be dialled, half of them for others at most; chosen: four topics'
worth of requests under way."""

STREAM_TIMEOUT = 10.0
"""Seconds that a connected peer has for Pubsub's stream to it: as long as py-libp2p negotiates one,
which a busy host needs."""

_LOOK_AGAIN = 0.5
"""Seconds after which a connection that should get a stream is looked at again."""

_HELD = 2.0
"""Seconds that a dial's turn is kept for the streams after it, so that a mute peer costs little."""

DIALS_AT_ONCE = 4
"""Dials at a time. Spec: C_rand = 4; more at once only slow each other down."""

_FEWEST = 2
"""The same to begin with, and while the event loop is slow; one of them for others."""


_EXPLAINED = {
    Reason.DIAL_NO_ADDRESS: "no address of it is known",
    Reason.DIALS_FULL: "too many dials are under way",
    Reason.NO_EPISUB_STREAM: "connected, but it opened no Episub stream: does it run Episub?",
}
"""What the reasons mean that come without an error."""


@dataclass(eq=False)
class Dialer(PeerListener):
    """Dials a few peers at a time, and leaves those alone for a while that failed."""

    pubsub: Pubsub
    peers: PeerTable
    params: RouterParams
    counters: Counters
    book: AddressBook
    tasks: Tasks

    def __post_init__(self) -> None:
        self._host: IHost = self.pubsub.host
        self._budget = DialBudget()
        self._limiter = trio.CapacityLimiter(1)
        """As many dials at a time as the event loop keeps up with, up to `DIALS_AT_ONCE`."""
        self._for_others = trio.CapacityLimiter(1)
        """Passed first by dials that other nodes' messages asked for: half of the turns are kept
        from them, or made-up addresses could take all."""
        self._again = trio.CapacityLimiter(1)
        """Likewise by our own to peers whose last one failed, as time-outs could take all. Those of
        others don't hold them up."""
        self._allow(_FEWEST)
        self._under_way = 0

    def dial_wanted(self, peer: RemotePeer, for_others: bool) -> None:
        if peer.request is not None:
            self.tasks.start(self._serve, peer, peer.request, for_others)

    def connect_for_others(self, key: bytes) -> None:
        """Connect to a peer that another one offered. Where too many dials are under way it is
        left: there is no hurry, and more will be offered."""
        if self._under_way < _MAX_DIALS // 2:
            self._under_way += 1
            self.tasks.start(self._take_up, self.peers[key])

    async def _take_up(self, peer: RemotePeer) -> None:
        self._under_way -= 1
        await self.connect(peer, for_others=True)

    async def _serve(self, peer: RemotePeer, writable: trio.Event, for_others: bool) -> None:
        """Set `writable` in the end, or report why it isn't."""
        if writable.is_set():
            return
        reason, seconds = None, STREAM_TIMEOUT
        if not self.peers.is_connected(peer.id):
            reason = await self.connect(peer, writable, for_others=for_others)
        elif getattr(self.pubsub, "opens_one_stream", False):
            # Pubsub may have given up. Where it hasn't, the stock class would open a second stream.
            seconds = _HELD
        if reason is None:
            with suppress(Exception):  # Whatever goes wrong, there is no stream.
                await self._wait_for_stream(peer.id, writable, seconds)
                if self._may_speak_episub(peer.id) and not writable.is_set():
                    # A peer that had no pubsub yet when the connection came up is never registered
                    # by itself.
                    async with load_aware(STREAM_TIMEOUT):
                        await self.pubsub.ensure_peer_stream(peer.id, STREAM_TIMEOUT)
            if not writable.is_set():
                peer.note_failed_dial(trio.current_time())
                reason = Reason.NO_EPISUB_STREAM
        if reason is not None and not writable.is_set():
            self.counters.add(reason)
            peer.dial_error = _EXPLAINED.get(reason) or peer.dial_error or "the dial failed"
            self.peers.dial_failed(peer)

    async def connect(
        self,
        peer: RemotePeer,
        writable: trio.Event | None = None,
        *,
        for_others: bool = False,
        given: Sequence[Multiaddr] = (),
    ) -> Reason | None:
        """Connect to `peer` when it is its turn, and for a moment wait for `writable`. `given` are
        addresses that the operator wants dialled, whatever failed before. Returns why there is no
        connection, if there is none. Never raises."""
        if self._under_way >= (_MAX_DIALS // 2 if for_others else _MAX_DIALS):
            return Reason.DIALS_FULL
        if peer.dial_not_before > trio.current_time() and not given:
            return Reason.DIAL_BACKED_OFF
        self._under_way += 1
        try:
            async with AsyncExitStack() as turn:
                if for_others:
                    await turn.enter_async_context(self._for_others)
                elif peer.dial_pause:
                    await turn.enter_async_context(self._again)
                await turn.enter_async_context(self._limiter)
                reason = await self._dial(peer, given)
                if reason is None and writable is not None:
                    # Identify and Pubsub's streams are more work than the dial was.
                    await self._wait_for_stream(peer.id, writable, _HELD)
        except Exception:
            reason = Reason.DIAL_FAILED
        finally:
            self._under_way -= 1
        if reason is not None:
            peer.note_failed_dial(trio.current_time())
        return reason

    async def _wait_for_stream(self, target: ID, writable: trio.Event, seconds: float) -> None:
        """Until `writable` is set, it can't be expected any more, or `seconds` have passed."""
        async with load_aware(seconds) as seen:
            while (
                not writable.is_set()
                and self.peers.is_connected(target)
                and self._may_speak_episub(target)
            ):
                with trio.move_on_after(_LOOK_AGAIN):
                    await writable.wait()
        self._pace(seen)

    def _pace(self, seen: Pace) -> None:
        """Few dials at a time while the event loop is slow, else one more each time."""
        self._allow(_FEWEST if seen.is_slow else int(self._limiter.total_tokens) + 1)

    def _allow(self, turns: int) -> None:
        turns = min(turns, DIALS_AT_ONCE)
        self._limiter.total_tokens = turns
        self._for_others.total_tokens = self._again.total_tokens = max(1, turns // 2)

    async def _dial(self, peer: RemotePeer, given: Sequence[Multiaddr]) -> Reason | None:
        if self.peers.is_connected(peer.id):
            return None
        addresses = list(dict.fromkeys([*given, *self._known_addresses(peer)]))
        if not addresses or peer.id == self._host.get_id():
            return Reason.DIAL_NO_ADDRESS
        informant = None if given else self.book.informant(peer.key)
        if informant:
            # The host may be a third party: a made-up record can name many of its ports.
            if informant != peer.key:
                addresses = one_of_each_host(addresses)
            if not self._budget.take(informant, addresses, trio.current_time()):
                return Reason.DIAL_UNAFFORDABLE
        self.counters.add(Ordinary.DIALS)
        peer.dialled_until = trio.current_time() + STREAM_TIMEOUT + self.params.dial_timeout
        deadline = trio.current_time() + self.params.dial_timeout
        for tried, address in enumerate(addresses):
            # What one leaves of its part, the next ones have.
            left = max(deadline - trio.current_time(), self.params.dial_timeout / len(addresses))
            seconds = left / (len(addresses) - tried)
            error = await self._try(peer, address, seconds, once=informant is not None)
            if self.peers.is_connected(peer.id):
                peer.dial_error = ""
                break
            peer.dial_error = error
        else:
            return Reason.DIAL_FAILED
        if informant:
            self._budget.give_back(informant, addresses, trio.current_time())
        return None

    async def _try(
        self, peer: RemotePeer, address: Multiaddr, seconds: float, *, once: bool
    ) -> str:
        """Dial one address; with one connection if `once`, where py-libp2p makes four. Returns why
        there is no connection, where there is none."""
        network: Any = self._host.get_network()
        dial = network.dial_addr
        if once:
            alone = getattr(network, "_dial_addr_single_attempt", dial)
            dial = getattr(network, "dial_addr_once", alone)
        try:
            if not await network.connection_gate.is_allowed(address):
                return "the host's connection gate is closed to it"
            async with load_aware(seconds) as seen:
                try:
                    # `connect` dials the first TCP address of the peerstore, refuses for a minute
                    # what failed, and lets all addresses of the peer expire in two minutes.
                    if is_circuit(address):
                        relay = self.peers[relay_of(address).peer_id.to_bytes()]
                        relay.dialled_until = peer.dialled_until
                        await dial_circuit(self._host, address, peer.id, dial)
                    else:
                        await dial(address, peer.id)
                finally:
                    self._pace(seen)
        except Exception as error:
            # Whatever goes wrong here, there is the next address.
            return root_cause(error)
        return f"no answer in {seconds:g} s"

    def _known_addresses(self, peer: RemotePeer) -> list[Multiaddr]:
        """Ours first, then those that the host has from elsewhere, without repetition; through
        relays last."""
        known = dict.fromkeys(self.book.addresses(peer.key))
        with suppress(PeerStoreError):
            known.update(dict.fromkeys(self._host.get_peerstore().addrs(peer.id)))
        return sorted(known, key=is_circuit)[:DIALLED_ADDRESSES]

    def _may_speak_episub(self, target: ID) -> bool:
        """False if identify says that it doesn't."""
        try:
            spoken = self._host.get_peerstore().get_protocols(target)
        except PeerStoreError:
            return True
        return not spoken or PROTOCOL_ID in spoken


def root_cause(error: BaseException) -> str:
    """The error at the bottom of a chain, in one line. Transports with a nursery raise groups."""
    while not isinstance(error, OSError):
        below = error.__cause__
        if isinstance(error, BaseExceptionGroup):
            below = error.exceptions[0]
        if below is None:
            break
        error = below
    text = " ".join(str(error).split())
    if isinstance(error, PeerIDMismatchesPubkey):
        return f"does the peer there have another id? {text}"
    if isinstance(error, OSError):
        return f"nothing listens there, or a firewall is in between: {text}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
