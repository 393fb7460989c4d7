"""The one place that knows of every remote peer and moves it from state to state.

The host's and Pubsub's arrivals and departures end here, and requests to make a peer writable.
docs/design.md has the table of transitions.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Iterator

import trio
from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.rpc_queue import RpcQueue

from episub_router.net.backlog import Backlog
from episub_router.net.counters import Counters, Reason
from episub_router.net.params import RouterParams
from episub_router.net.peer import PROTOCOL_ID, PeerSide, PeerState, RemotePeer

MAX_IDLE_PEERS = 4096
"""Records kept of peers that aren't connected, for their dial back-off and their sequence ids;
ours: many times the connections of one host."""


class PeerListener:
    """Is notified of transitions, after they are made. Override what is of interest."""

    def peer_writable(self, peer: RemotePeer) -> None:
        """Frames can be sent to `peer`, which is on Episub's side."""

    def stream_lost(self, peer: RemotePeer) -> None:
        """Our stream to `peer` is gone, perhaps with the connection."""

    def peer_lost(self, peer: RemotePeer) -> None:
        """`peer` isn't writable any more, or frames for it were lost."""

    def dial_wanted(self, peer: RemotePeer, for_others: bool) -> None:
        """`peer` is to be made writable; `for_others` if another node's message asked for it."""

    def dial_failed(self, peer: RemotePeer) -> None:
        """`peer` could not be made writable."""

    def gossipsub_peer_added(self, peer: RemotePeer) -> None:
        """`peer` has a stream over `peer.protocol`, and speaks no Episub."""

    def gossipsub_peer_removed(self, peer: RemotePeer) -> None:
        """`peer` is gone, or has turned out to speak Episub."""


class PeerTable:
    """Every remote peer's record, by the bytes of its id.

    Looking up a peer that has none makes one. Records of connected peers, and of those that are
    being dialled, are kept; of the others the `MAX_IDLE_PEERS` used last.
    """

    def __init__(
        self, pubsub: Pubsub, params: RouterParams, counters: Counters, *, offers_episub: bool
    ) -> None:
        self._pubsub = pubsub
        self._params = params
        self._counters = counters
        self._offers_episub = offers_episub
        self._listeners: list[PeerListener] = []
        self._peers: dict[bytes, RemotePeer] = {}
        self._idle: OrderedDict[bytes, None] = OrderedDict()
        """Keys of idle peers, the one used longest ago first."""
        self._first_sequence_id = time.time_ns()
        """A restarted node goes on above its past; ids stay in [1, 2^64)."""
        self.close_due_changed = trio.Event()
        """Set, and replaced, when a connection becomes due sooner than known."""

    def listen(self, listener: PeerListener) -> None:
        """Notify `listener` of transitions, after those that listen already."""
        self._listeners.append(listener)

    # Looking up

    def __getitem__(self, key: bytes) -> RemotePeer:
        peer = self._peers.get(key)
        if peer is None:
            backlog = Backlog(self._params.backlog_frames, self._params.backlog_bytes)
            peer = RemotePeer(ID(key), backlog, self._first_sequence_id)
            self._peers[key] = peer
            self._move(peer, PeerState.IDLE)
        return peer

    def known(self, peer: ID) -> RemotePeer | None:
        """What is known of `peer`, if anything is."""
        return self._peers.get(peer.to_bytes())

    def __iter__(self) -> Iterator[RemotePeer]:
        return iter(list(self._peers.values()))

    def __len__(self) -> int:
        return len(self._peers)

    def side(self, peer: ID) -> PeerSide:
        """Which side `peer` is on."""
        known = self.known(peer)
        return PeerSide.UNKNOWN if known is None else known.side

    def is_writable(self, peer: RemotePeer) -> bool:
        """Whether a frame can be put into the queue of `peer`, or wait for room in it."""
        return (
            peer.state is PeerState.WRITABLE
            and peer.side is PeerSide.EPISUB
            and self.queue(peer) is not None
        )

    def writable(self) -> list[RemotePeer]:
        """The peers that frames can be sent to."""
        return [peer for peer in self._peers.values() if self.is_writable(peer)]

    def queue(self, peer: RemotePeer) -> RpcQueue | None:
        """Pubsub's queue for `peer`, if it is open."""
        # A blacklisted peer loses its place in `peers` and keeps its queue.
        if peer.id not in self._pubsub.peers:
            return None
        queue = self._pubsub.peer_queues.get(peer.id)
        return None if queue is None or queue.closed else queue

    def is_connected(self, peer: ID) -> bool:
        """Whether a connection to `peer` is open."""
        return any(
            not connection.is_closed
            for connection in self._pubsub.host.get_network().get_connections(peer)
        )

    def protocols(self) -> dict[ID, TProtocol]:
        """What our stream to each peer negotiated."""
        every = self._peers.values()
        return {peer.id: peer.protocol for peer in every if peer.protocol is not None}

    # Arrivals and departures, as the host and Pubsub report them

    def connection_opened(
        self, peer_id: ID, probed: bool | None = None, outbound: bool = False
    ) -> None:
        """The host has a connection to `peer_id`; `probed`: a new one, which the system ends by
        itself if it is silent, or doesn't; `outbound`: a new one that this side opened."""
        peer = self[peer_id.to_bytes()]
        if probed is not None:
            peer.probed = probed and peer.probed is not False
        if peer.state in (PeerState.IDLE, PeerState.DIALLING):
            self._move(peer, PeerState.CONNECTED)
        if self.is_banned(peer):
            self._close_in(peer, 0.0)
        elif outbound and trio.current_time() < peer.dialled_until and peer.close_at is None:
            # The dial may have been given up a moment ago, or have crossed the peer's.
            self.note_dialled(peer)

    def connection_closed(self, peer_id: ID) -> None:
        """A connection to `peer_id` closed, perhaps not the only one."""
        # Pubsub reports the end of a stream that it had itself, and nothing of other peers.
        if peer_id not in self._pubsub.peers and not self.is_connected(peer_id):
            self._depart(self[peer_id.to_bytes()])

    def stream_opened(self, peer_id: ID, protocol: TProtocol) -> None:
        """Pubsub has a stream to `peer_id` over `protocol`, and no queue yet."""
        peer = self[peer_id.to_bytes()]
        self.connection_opened(peer_id)
        peer.protocol = protocol
        if self._offers_episub and (protocol == PROTOCOL_ID or self._has_shown_episub(peer)):
            self._take_to_episub(peer)
            return
        interrupted = peer.state is PeerState.INTERRUPTED
        discarded = self._discard(peer) if peer.side is not PeerSide.GOSSIPSUB else 0
        peer.side = PeerSide.GOSSIPSUB
        if interrupted:
            self._move(peer, PeerState.CONNECTED)
        if interrupted or discarded:
            self._notify_lost(peer)
        for listener in self._listeners:
            listener.gossipsub_peer_added(peer)

    def queue_opened(self, peer_id: ID) -> None:
        """Pubsub has a queue for `peer_id`; it says so again with each new subscription."""
        peer = self.look_at_side(peer_id)
        self._open(peer)

    def look_at_side(self, peer_id: ID) -> RemotePeer:
        """The record of `peer_id`. Of its two streams, the one to us may come later, and be the
        one that shows Episub."""
        peer = self[peer_id.to_bytes()]
        if (
            self._offers_episub
            and peer.side is not PeerSide.EPISUB
            and peer.state is not PeerState.IDLE
            and self._has_shown_episub(peer)
        ):
            self._take_to_episub(peer)
        return peer

    def note_episub(self, peer: RemotePeer) -> None:
        """`peer` sent a frame, or announced that it speaks Episub."""
        if peer.state is PeerState.WRITABLE and peer.side is PeerSide.EPISUB:
            peer.showed_episub = True
            return
        if peer.state is PeerState.IDLE and not self.is_connected(peer.id):
            return
        self.connection_opened(peer.id)
        peer.showed_episub = True
        self._take_to_episub(peer)
        self._open(peer)

    def stream_lost(self, peer_id: ID) -> None:
        """Pubsub's stream to `peer_id` is gone, perhaps with the connection."""
        peer = self[peer_id.to_bytes()]
        peer.protocol = None
        peer.stalled = False
        connected = self.is_connected(peer_id)
        if connected and peer.side is PeerSide.EPISUB:
            # Of two connections that crossed, one goes, and Pubsub opens a stream on the other.
            if peer.state is PeerState.WRITABLE:
                self._move(peer, PeerState.INTERRUPTED)
        elif connected:
            self._discard(peer)
            peer.side = PeerSide.UNKNOWN
            self._move(peer, PeerState.CONNECTED)
        for listener in self._listeners:
            listener.gossipsub_peer_removed(peer)
            listener.stream_lost(peer)
        if not connected:
            self._depart(peer)
        elif peer.side is PeerSide.EPISUB:
            self.request(peer)

    # Making peers writable

    def request(self, peer: RemotePeer, for_others: bool = False) -> None:
        """Make `peer` writable; while a request is under way, another adds nothing."""
        if peer.request is not None:
            return
        peer.request = trio.Event()
        if peer.state is PeerState.IDLE:
            connected = self.is_connected(peer.id)
            self._move(peer, PeerState.CONNECTED if connected else PeerState.DIALLING)
        for listener in self._listeners:
            listener.dial_wanted(peer, for_others)

    def dial_failed(self, peer: RemotePeer) -> None:
        """The request for `peer` ended without success."""
        peer.request = None
        interrupted = peer.state is PeerState.INTERRUPTED
        discarded = 0 if peer.side is PeerSide.GOSSIPSUB else self._discard(peer)
        if not self.is_connected(peer.id):
            peer.forget_connection()
            self._move(peer, PeerState.IDLE)
        elif interrupted:
            # Without a stream nothing says any more which side the peer is on.
            peer.side = PeerSide.UNKNOWN
            peer.showed_episub = False
            self._move(peer, PeerState.CONNECTED)
        for listener in self._listeners:
            listener.dial_failed(peer)
        if interrupted or discarded:
            self._notify_lost(peer)

    # Peers that take nothing

    def stall(self, peer: RemotePeer) -> None:
        """`peer` takes nothing from its queue: what waits for it is dropped."""
        peer.stalled = True
        self._counters.add(Reason.PEER_STALLED)
        self._discard(peer)
        if peer.state is PeerState.WRITABLE:
            self._move(peer, PeerState.CONNECTED)
            if peer.side is PeerSide.EPISUB:
                self._notify_lost(peer)

    def resume(self, peer: RemotePeer) -> None:
        """`peer` takes from its queue again."""
        peer.stalled = False
        self._open(peer)

    def interrupt(self, peer: RemotePeer) -> None:
        """Pubsub took the queue of `peer` away without saying so: it was blacklisted."""
        if peer.state is PeerState.WRITABLE:
            self._move(peer, PeerState.INTERRUPTED)

    # Connections to close

    def note_dialled(self, peer: RemotePeer) -> None:
        """The router made the connection to `peer`, and may close it again."""
        self._close_in(peer, self._params.idle_timeout)

    def note_use(self, peer: RemotePeer) -> None:
        """`peer` is of use at the moment, released or not."""
        if peer.close_at is not None and not self.is_banned(peer):
            peer.close_at = trio.current_time() + self._params.idle_timeout

    def release(self, peer: RemotePeer) -> None:
        """Nobody needs `peer` at the moment: close its connection soon, if it is ours."""
        if peer.close_at is not None:
            self._close_in(peer, self._params.release_grace)

    # Bans

    def is_banned(self, peer: RemotePeer) -> bool:
        """Whether no connection to `peer` is to stay."""
        return peer.banned_until > 0 and trio.current_time() < peer.banned_until

    def ban(self, peer: RemotePeer, seconds: float) -> None:
        """Close the connections to `peer`, and new ones for `seconds`, and don't dial it. At most
        `MAX_IDLE_PEERS` that aren't connected are remembered."""
        peer.banned_until = max(peer.banned_until, trio.current_time() + seconds)
        peer.dial_not_before = max(peer.dial_not_before, peer.banned_until)
        if peer.state not in (PeerState.IDLE, PeerState.DIALLING):
            self._close_in(peer, 0.0)

    def _close_in(self, peer: RemotePeer, seconds: float) -> None:
        """Close the connection to `peer` after `seconds`, or at once if it is banned."""
        peer.close_at = trio.current_time() + (0.0 if self.is_banned(peer) else seconds)
        self.close_due_changed.set()
        self.close_due_changed = trio.Event()

    # Transitions

    def _move(self, peer: RemotePeer, state: PeerState) -> None:
        if peer.state is PeerState.WRITABLE:
            peer.records_sent.clear()
        peer.state = state
        if state is not PeerState.IDLE:
            self._idle.pop(peer.key, None)
            return
        self._idle[peer.key] = None
        self._idle.move_to_end(peer.key)
        if len(self._idle) > MAX_IDLE_PEERS:
            oldest = self._peers.pop(self._idle.popitem(last=False)[0])
            # Should it come back, its ids start above everything that it was sent.
            self._first_sequence_id = max(self._first_sequence_id, oldest.last_sent)

    def _open(self, peer: RemotePeer) -> None:
        """Use `peer`, if there is a queue for it, and it hasn't been in use already."""
        if (
            peer.state is PeerState.WRITABLE
            or peer.side is PeerSide.UNKNOWN
            or peer.stalled
            or self.queue(peer) is None
        ):
            return
        self._move(peer, PeerState.WRITABLE)
        if peer.side is PeerSide.EPISUB:
            peer.failed_dials, peer.dial_not_before = 0, peer.banned_until
            if peer.request is not None:
                peer.request.set()
                peer.request = None
            for listener in self._listeners:
                listener.peer_writable(peer)

    def _take_to_episub(self, peer: RemotePeer) -> None:
        """`peer` speaks Episub, whatever we took it for."""
        if peer.side is PeerSide.GOSSIPSUB:
            self._discard(peer)
            if peer.state is PeerState.WRITABLE:
                self._move(peer, PeerState.CONNECTED)
            peer.side = PeerSide.EPISUB
            for listener in self._listeners:
                listener.gossipsub_peer_removed(peer)
        peer.side = PeerSide.EPISUB

    def _has_shown_episub(self, peer: RemotePeer) -> bool:
        """Whether a frame or the extension said so, or the peer chose it for a stream to us."""
        peer.showed_episub = peer.showed_episub or any(
            stream.get_protocol() == PROTOCOL_ID
            for connection in self._pubsub.host.get_network().get_connections(peer.id)
            for stream in connection.get_streams()
        )
        return peer.showed_episub

    def _depart(self, peer: RemotePeer) -> None:
        """The last connection to `peer` closed."""
        discarded = self._discard(peer)
        lost = discarded or peer.state in (PeerState.WRITABLE, PeerState.INTERRUPTED)
        peer.forget_connection()
        self._move(peer, PeerState.IDLE if peer.request is None else PeerState.DIALLING)
        if lost:
            self._notify_lost(peer)

    def _notify_lost(self, peer: RemotePeer) -> None:
        for listener in self._listeners:
            listener.peer_lost(peer)

    def _discard(self, peer: RemotePeer) -> int:
        count = peer.backlog.clear() + peer.pieces.clear()
        if count:
            self._counters.add(Reason.UNDELIVERABLE, count)
        return count
