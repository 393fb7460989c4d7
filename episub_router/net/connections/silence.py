"""Which peers have stopped: connections over which nothing comes, though something should.

The kernel of a process that has stopped goes on acknowledging what is sent. A process that runs
answers Yamux's pings, which both sides send every 30 s, and where it speaks py-libp2p's Yamux gives
credit back for what it has read. So a peer from which not one byte has come is reported, for the
core to ask it.
"""

from __future__ import annotations

import trio
from libp2p.abc import IHost

from episub_router.net.connections.sockets import bytes_received
from episub_router.net.peers import PeerTable, Quiet, RemotePeer

LOOK_INTERVAL = 1.0
"""Seconds between two looks while something was pushed or waits. Looks are counted, and not
seconds, since an event loop that is behind has few of them."""

LOOKS_PUSHED = 3
"""Looks, `LOOK_INTERVAL` apart, at which nothing has come since a payload went out. Chosen: with
the core's 4 s a process that has stopped is noticed within 10 s."""

_LOOKS_AGAIN = 6
"""The same of a peer that was reported and answered: its Yamux gives credit back less often."""

LOOKS_AT_REST = 3
"""Looks in a row, `REST_INTERVAL` apart, at which nothing has come. Chosen: with two, a ping that
is a little late would count."""

REST_INTERVAL = 15.0
"""Seconds between two looks at all neighbours; chosen: half of the time between two pings."""


class SilenceWatch:
    """Looks at the connections of neighbours, as often as its owner calls `look`."""

    def __init__(self, host: IHost, peers: PeerTable) -> None:
        """What seems to have stopped is reported to `peers`, again as long as it does."""
        self._host = host
        self._peers = peers
        self._awaits_answers = False
        """Whether a peer was pushed to and hasn't answered yet."""
        self._due = -float("inf")
        """When all neighbours are looked at next."""

    def note_push(self, peer: RemotePeer) -> None:
        """A payload goes out to `peer`."""
        if peer.pushed is None and peer.probed:
            peer.pushed = self._quiet(peer)
            self._awaits_answers = True

    def look(self) -> float:
        """Report what is silent; how many seconds later at most to call again, or one where that is
        less than one."""
        if self._awaits_answers:
            self._awaits_answers = self._look_at_pushed()
        now = trio.current_time()
        if now >= self._due:
            self._due = now + REST_INTERVAL
            self._look_at_neighbors()
        return LOOK_INTERVAL if self._awaits_answers else self._due - now

    def _look_at_pushed(self) -> bool:
        """Returns whether answers are still awaited."""
        awaited = False
        for peer in self._peers:
            peer.pushed = self._looked_at(peer, peer.pushed)
            if peer.pushed is None:
                continue
            if peer.pushed.looks >= (_LOOKS_AGAIN if peer.was_reported else LOOKS_PUSHED):
                peer.pushed = None
                self._report(peer)
            else:
                awaited = True
        return awaited

    def _look_at_neighbors(self) -> None:
        for peer in self._peers:
            if not (peer.topics and peer.probed):
                peer.at_rest = None
                continue
            peer.at_rest = self._looked_at(peer, peer.at_rest) or self._quiet(peer)
            if peer.at_rest is not None and peer.at_rest.looks >= LOOKS_AT_REST:
                peer.at_rest = None
                self._report(peer)

    def _report(self, peer: RemotePeer) -> None:
        peer.was_reported = True
        self._peers.note_silence(peer)

    def _looked_at(self, peer: RemotePeer, quiet: Quiet | None) -> Quiet | None:
        """`quiet` with one look more; None if something has come since."""
        if quiet is None or self._received(peer) != quiet.received:
            return None
        quiet.looks += 1
        return quiet

    def _quiet(self, peer: RemotePeer) -> Quiet | None:
        received = self._received(peer)
        return None if received is None else Quiet(received)

    def _received(self, peer: RemotePeer) -> int | None:
        """Bytes that have come over the connections to `peer`; None if that is unknown."""
        counts = [
            bytes_received(connection.muxed_conn)
            for connection in self._host.get_network().get_connections(peer.id)
        ]
        known = [count for count in counts if count is not None]
        return sum(known) if known else None
