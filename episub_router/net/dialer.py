"""Making peers writable: dial, and wait for Pubsub's stream (E05, E15).

"Writable" means that Pubsub has an outbound queue for the peer, over Episub. A dial here is
over once that is so, or has failed; every request ends in one of the two.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, suppress

import trio
from libp2p.abc import IHost
from libp2p.custom_types import TProtocol
from libp2p.network.connection.swarm_connection import SwarmConn
from libp2p.network.swarm import Swarm
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo
from libp2p.peer.peerstore import PeerStoreError
from libp2p.pubsub.pubsub import Pubsub
from libp2p.rcmgr import Direction
from multiaddr import Multiaddr

from episub_router.net.counters import Counters, Reason
from episub_router.net.params import RouterParams
from episub_router.net.patience import Pace, patient

_LOOK_AGAIN = 0.5
"""Seconds after which a connection that should get a stream is looked at again."""

_HELD = 2.0
"""Seconds that a dial's turn is kept for the streams after it, so that a mute peer costs little."""

_FEWEST = 2
"""Dials at a time to begin with, one of them for others."""

_ADDRESS_TTL = 120
"""Seconds that py-libp2p keeps the addresses of a peer that it was told to connect to."""


class Dialer:
    """Dials a few peers at a time, and leaves those alone for a while that failed."""

    def __init__(
        self,
        pubsub: Pubsub,
        protocols: Iterable[TProtocol],
        params: RouterParams,
        counters: Counters,
        *,
        addresses: Callable[[bytes], Iterable[Multiaddr]],
        opened: Callable[[bytes], None],
        failed: Callable[[bytes], None],
    ) -> None:
        """`opened` is told of each connection that a dial made, `failed` of each peer that a
        request couldn't make writable, never from within `request`."""
        self._pubsub = pubsub
        self._host: IHost = pubsub.host
        self._protocols = frozenset(str(protocol) for protocol in protocols)
        self._params = params
        self._counters = counters
        self._addresses = addresses
        self._opened = opened
        self._failed = failed
        self._limiter = trio.CapacityLimiter(1)
        """As many dials at a time as the event loop keeps up with, up to `dial_concurrency`."""
        self._for_others = trio.CapacityLimiter(1)
        """Passed first by dials that other nodes' messages asked for: half of the turns are kept
        from them, or made-up addresses could take all."""
        self._allow(_FEWEST)
        self._requests: dict[bytes, trio.Event] = {}
        """Requests under way; the event is set when the peer is writable."""
        self._failures: dict[bytes, tuple[int, float]] = {}
        """Failures in a row, and until when not to dial; the oldest first."""
        self._nursery: trio.Nursery | None = None

    def __contains__(self, peer: bytes) -> bool:
        return peer in self._requests

    async def run(self) -> None:
        """Host the dials until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            for peer in self._requests:
                nursery.start_soon(self._serve, peer, False)
            await trio.sleep_forever()

    def request(self, peer: bytes, *, for_others: bool = False) -> None:
        """Make `peer` writable; while a request is under way, another adds nothing."""
        if peer in self._requests:
            return
        self._requests[peer] = trio.Event()
        if self._nursery is not None:
            self._nursery.start_soon(self._serve, peer, for_others)

    def writable(self, peer: bytes) -> None:
        """`peer` became writable, whoever dialled."""
        self._failures.pop(peer, None)
        event = self._requests.pop(peer, None)
        if event is not None:
            event.set()

    async def _serve(self, peer: bytes, for_others: bool) -> None:
        writable = self._requests.get(peer)
        if writable is None:
            return
        try:
            reason = await self._make_writable(peer, writable, for_others)
        except Exception:
            reason = Reason.DIAL_FAILED
        if writable.is_set():
            return
        del self._requests[peer]
        self._counters.add(reason)
        self._failed(peer)

    async def _make_writable(self, peer: bytes, writable: trio.Event, for_others: bool) -> Reason:
        """Return when `writable` is set, or why it isn't."""
        target = ID(peer)
        if not self.is_connected(target):
            if len(self._requests) > self._params.max_dials:
                return Reason.DIALS_FULL
            if self._backing_off(peer):
                return Reason.DIAL_BACKED_OFF
            async with AsyncExitStack() as turn:
                if for_others:
                    await turn.enter_async_context(self._for_others)
                await turn.enter_async_context(self._limiter)
                reason = await self._connect(peer, target)
                if reason is None:
                    # Identify and Pubsub's streams are more work than the dial was.
                    await self._wait_for_stream(target, writable, _HELD)
            if reason is not None:
                self._note_failure(peer)
                return reason
        await self._wait_for_stream(target, writable, self._params.stream_timeout)
        if self._may_speak_episub(target) and not writable.is_set():
            # A peer that had no pubsub yet when the connection came up is never registered by
            # itself.
            async with patient(self._params.stream_timeout):
                await self._pubsub.ensure_peer_stream(target, self._params.stream_timeout)
        if not writable.is_set():
            self._note_failure(peer)
        return Reason.NO_EPISUB_STREAM

    async def _wait_for_stream(self, target: ID, writable: trio.Event, seconds: float) -> None:
        """Until `writable` is set, it can't be expected any more, or `seconds` have passed."""
        async with patient(seconds) as seen:
            while (
                not writable.is_set()
                and self.is_connected(target)
                and self._may_speak_episub(target)
            ):
                with trio.move_on_after(_LOOK_AGAIN):
                    await writable.wait()
        self._pace(seen)

    def _pace(self, seen: Pace) -> None:
        """Few dials at a time while the event loop is slow, else one more each time."""
        self._allow(_FEWEST if seen.is_slow else int(self._limiter.total_tokens) + 1)

    def _allow(self, turns: int) -> None:
        turns = min(turns, self._params.dial_concurrency)
        self._limiter.total_tokens = turns
        self._for_others.total_tokens = max(1, turns // 2)

    async def _connect(self, peer: bytes, target: ID) -> Reason | None:
        network = self._host.get_network()
        peerstore = self._host.get_peerstore()
        addresses = self._known_addresses(peer, target)
        if not addresses or target == self._host.get_id():
            return Reason.DIAL_NO_ADDRESS
        self._counters.add(Reason.DIALS)
        share = self._params.dial_timeout / len(addresses)
        for address in addresses:
            # py-libp2p dials the first TCP address that the peerstore has and no other, and
            # refuses for a minute to dial a peer that failed.
            peerstore.clear_addrs(target)
            if isinstance(network, Swarm):
                network.unblock_peer(target)
            # Whatever goes wrong here, there is the next address.
            with suppress(Exception):
                async with patient(share) as seen:
                    try:
                        await self._host.connect(PeerInfo(target, [address]))
                    finally:
                        self._pace(seen)
            if self.is_connected(target):
                # The other side may have dialled at the same time, and been faster.
                if any(
                    isinstance(connection, SwarmConn) and connection.direction is Direction.OUTBOUND
                    for connection in network.get_connections(target)
                ):
                    self._opened(peer)
                return None
        peerstore.add_addrs(target, addresses, _ADDRESS_TTL)
        return Reason.DIAL_FAILED

    def _known_addresses(self, peer: bytes, target: ID) -> list[Multiaddr]:
        """Ours first, then those that the host has from elsewhere, without repetition."""
        known = dict.fromkeys(self._addresses(peer))
        with suppress(PeerStoreError):
            known.update(dict.fromkeys(self._host.get_peerstore().addrs(target)))
        return list(known)[: self._params.dial_addresses]

    def is_connected(self, target: ID) -> bool:
        """Whether a connection to `target` is open."""
        return any(
            not connection.is_closed
            for connection in self._host.get_network().get_connections(target)
        )

    def _may_speak_episub(self, target: ID) -> bool:
        """False if identify has told that it doesn't."""
        try:
            spoken = self._host.get_peerstore().get_protocols(target)
        except PeerStoreError:
            return True
        return not spoken or any(protocol in self._protocols for protocol in spoken)

    def _backing_off(self, peer: bytes) -> bool:
        return self._failures.get(peer, (0, 0.0))[1] > trio.current_time()

    def _note_failure(self, peer: bytes) -> None:
        count = self._failures.pop(peer, (0, 0.0))[0] + 1
        pause = min(
            self._params.dial_backoff * 2 ** min(count - 1, 16), self._params.dial_backoff_max
        )
        self._failures[peer] = (count, trio.current_time() + pause)
        while len(self._failures) > self._params.backoff_memory:
            del self._failures[next(iter(self._failures))]
