"""Which peers have stopped: connections over which nothing comes, though something should.

The kernel of a process that has stopped goes on acknowledging what is sent. A process that runs
answers Yamux's pings, which both sides send every 30 s, and where it speaks py-libp2p's Yamux gives
credit back for what it has read. So a peer from which not one byte has come is reported, for the
core to ask it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import trio
from libp2p.abc import IHost
from libp2p.peer.id import ID

from episub_router.net.connections.sockets import bytes_received
from episub_router.net.peer import RemotePeer
from episub_router.net.peer_table import PeerTable

LOOK_INTERVAL = 1.0
"""Seconds between two looks while something was pushed or waits. Looks are counted, and not
seconds, since an event loop that is behind has few of them."""

LOOKS_PUSHED = 3
"""Looks, `LOOK_INTERVAL` apart, at which nothing has come since a payload went out. Ours: with
the core's 4 s a process that has stopped is noticed within 10 s."""

_LOOKS_AGAIN = 6
"""The same of a peer that was reported and answered: its Yamux gives credit back less often."""

LOOKS_AT_REST = 3
"""Looks in a row, `REST_INTERVAL` apart, at which nothing has come. Ours: with two, a ping that is
a little late would count."""

REST_INTERVAL = 15.0
"""Seconds between two looks at all neighbours; ours: half of the time between two pings."""


class _Seen:
    """How much had come from a peer, and at how many looks nothing more had."""

    __slots__ = ("looks", "received")

    def __init__(self, received: int) -> None:
        self.received = received
        self.looks = 0


class SilenceWatch:
    """Looks at the connections of neighbours, as often as its owner calls `look`."""

    def __init__(
        self,
        host: IHost,
        peers: PeerTable,
        neighbors: Callable[[], Iterable[ID]],
        report: Callable[[RemotePeer], None],
    ) -> None:
        """`neighbors` has those of all topics; `report` is called with what seems to have stopped,
        again as long as it does."""
        self._host = host
        self._peers = peers
        self._neighbors = neighbors
        self._report = report
        self._pushed: dict[RemotePeer, _Seen] = {}
        """Peers that were sent a payload after what came from them last. Bound: neighbours'."""
        self._at_rest: dict[RemotePeer, _Seen] = {}
        """Neighbours as they were at the last look at all. Bound: neighbours'."""
        self._due = -float("inf")
        """When all neighbours are looked at next."""

    def note_push(self, peer: RemotePeer) -> None:
        """A payload goes out to `peer`."""
        if peer not in self._pushed and peer.probed:
            received = self._received(peer)
            if received is not None:
                self._pushed[peer] = _Seen(received)

    def look(self) -> float:
        """Report what is silent; how many seconds later at most to call again, or one where that is
        less than one."""
        for peer in self._silent(self._pushed):
            again = peer.was_reported
            if self._pushed[peer].looks >= (_LOOKS_AGAIN if again else LOOKS_PUSHED):
                del self._pushed[peer]
                self._found(peer)
        now = trio.current_time()
        if now >= self._due:
            self._due = now + REST_INTERVAL
            self._look_at_neighbors()
        return LOOK_INTERVAL if self._pushed else self._due - now

    def _look_at_neighbors(self) -> None:
        seen = self._at_rest
        silent = self._silent(seen)
        self._at_rest = {}
        for peer in [self._peers[id.to_bytes()] for id in self._neighbors()]:
            known = seen.get(peer)
            if known is None and peer.probed and (received := self._received(peer)) is not None:
                known = _Seen(received)
            if known is not None:
                self._at_rest[peer] = known
        for peer in silent:
            if peer in self._at_rest and self._at_rest[peer].looks >= LOOKS_AT_REST:
                del self._at_rest[peer]
                self._found(peer)

    def _silent(self, peers: dict[RemotePeer, _Seen]) -> list[RemotePeer]:
        """Those from which nothing has come since they were put into `peers`; the others are taken
        out."""
        silent = []
        for peer, seen in list(peers.items()):
            if self._received(peer) == seen.received:
                seen.looks += 1
                silent.append(peer)
            else:
                del peers[peer]
        return silent

    def _found(self, peer: RemotePeer) -> None:
        peer.was_reported = True
        self._report(peer)

    def _received(self, peer: RemotePeer) -> int | None:
        """Bytes that have come over the connections to `peer`; None if that is unknown."""
        counts = [
            bytes_received(connection.muxed_conn)
            for connection in self._host.get_network().get_connections(peer.id)
        ]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None
