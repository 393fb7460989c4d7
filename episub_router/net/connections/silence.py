"""Which peers are gone or have stopped: connections over which nothing comes, though it should.

A machine that is cut off says no goodbye, and TCP alone goes on trying for a quarter of an hour:
the kernel is asked to break its connections sooner. The kernel of a process that has stopped goes
on acknowledging what is sent. A process that runs answers Yamux's pings, which both sides send
every 30 s, and where it speaks py-libp2p's Yamux gives credit back for what it has read. So a peer
from which not one byte has come is reported, for the core to ask it.
"""

from __future__ import annotations

from dataclasses import dataclass

import trio
from libp2p.abc import IHost

from episub_router.net.connections.kernel import bytes_received
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


@dataclass(eq=False)
class SilenceWatch:
    """Looks at the connections of neighbours, as often as its owner calls `look`. What seems to
    have stopped is reported to `peers`, again as long as it does."""

    host: IHost
    peers: PeerTable

    def __post_init__(self) -> None:
        self._awaits_answers = False
        """Whether a peer was pushed to and hasn't answered yet."""
        self._due = -float("inf")
        """When all neighbours are looked at next."""

    def note_push(self, peer: RemotePeer) -> None:
        """A payload goes out to `peer`."""
        if peer.probed and not (peer.quiet is not None and peer.quiet.pushed):
            received = bytes_received(self.host, peer.id)
            if received is not None:
                peer.quiet = Quiet(received, pushed=True)
                self._awaits_answers = True

    def look(self) -> float:
        """Report what is silent; how many seconds later at most to call again, or one where that is
        less than one."""
        now = trio.current_time()
        at_rest = now >= self._due
        if at_rest:
            self._due = now + REST_INTERVAL
        if at_rest or self._awaits_answers:
            awaited = [self._look_at(peer, at_rest) for peer in self.peers]
            self._awaits_answers = any(awaited)
        return LOOK_INTERVAL if self._awaits_answers else self._due - now

    def _look_at(self, peer: RemotePeer, at_rest: bool) -> bool:
        """Returns whether an answer to a payload is still awaited."""
        quiet = peer.quiet
        if quiet is None or not quiet.pushed:
            if not at_rest:
                return False
            if not (peer.topics and peer.probed):
                peer.quiet = None
                return False
        received = bytes_received(self.host, peer.id)
        if quiet is None or received != quiet.received:
            peer.quiet = None if received is None else Quiet(received)
            return False
        quiet.looks += 1
        pushed = _LOOKS_AGAIN if peer.was_reported else LOOKS_PUSHED
        if quiet.looks < (pushed if quiet.pushed else LOOKS_AT_REST):
            return quiet.pushed
        peer.quiet = None
        peer.was_reported = True
        self.peers.note_silence(peer)
        return False
