"""What a node knows of each remote peer, in one record, and the table that moves it.

The host's and Pubsub's arrivals and departures end here, and requests to make a peer writable.
docs/design.md has the table of transitions.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum

import trio
from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID
from libp2p.pubsub.pubsub import Pubsub
from libp2p.pubsub.rpc_queue import RpcQueue

from episub_router.net.backlog import Backlog
from episub_router.net.counters import Counters, Reason
from episub_router.net.params import RouterParams
from episub_router.util.connections import is_connected
from episub_router.util.send_window import SendWindow
from episub_router.wire.sequence import ReplayWindow

PROTOCOL_ID = TProtocol("/episub/1.0.0")

MAX_PEERS = 4096
"""Records that are kept, as long as they are of no use but for dial back-offs and sequence ids;
chosen: many times the connections of one host."""

DIAL_BACKOFF = 2.0
"""Seconds of pause after a failed dial, doubled with each failure in a row; chosen: a peer that
restarts is back by then."""

_LONGEST_BACKOFF = 60.0
"""Seconds; py-libp2p blocks a peer that couldn't be dialled for as long."""


class PeerState(Enum):
    """Whether a peer takes messages from us."""

    CLOSED = "closed"  # no stream of ours over which it takes messages
    WRITABLE = "writable"  # Pubsub has a queue for it, and it takes what is in there
    INTERRUPTED = "interrupted"  # its stream broke, a new one is awaited over the connection


class PeerSide(Enum):
    """Which protocol a peer is served with.

    Our stream to it, a frame, or the extension shows Episub, and nothing takes that back while the
    connection stands: each direction negotiates its own protocol, and one of them is enough.
    """

    UNKNOWN = "unknown"
    EPISUB = "episub"
    GOSSIPSUB = "gossipsub"  # or floodsub


@dataclass(slots=True)
class Quiet:
    """How much had come from a peer, and at how many looks nothing more had."""

    received: int  # bytes
    looks: int = 0
    pushed: bool = False  # whether a payload went to it meanwhile


@dataclass(slots=True, eq=False)
class RemotePeer:
    """What we know of one peer. `PeerTable` alone changes `state` and `side`."""

    id: ID
    backlog: Backlog
    last_sent: int  # the sequence id of the last frame to it (E42)
    key: bytes = field(init=False)  # the bytes of `id`, by which the core knows the peer
    state: PeerState = PeerState.CLOSED
    side: PeerSide = PeerSide.UNKNOWN
    protocol: TProtocol | None = None  # what our stream to it negotiated
    topics: dict[str, None] = field(default_factory=dict)  # topics in which it is a neighbour

    # What it sends, and what goes to it
    window: ReplayWindow = field(default_factory=ReplayWindow)  # sequence ids received
    records_sent: dict[bytes, tuple[bytes, float]] = field(default_factory=dict)
    """The address record of each peer that it was sent, and when, the oldest first."""
    send_window: SendWindow = field(default_factory=SendWindow)
    """How far it may be behind with what this node publishes."""
    waited_for_until: float = 0.0  # up to when publishers' waiting was charged to it

    # Dials, and connections to close
    request: trio.Event | None = None  # while it is to be made writable; set when it is
    topics_dialling: dict[str, None] = field(default_factory=dict)  # wait for the answer
    dial_pause: float = 0.0  # seconds, after the last failed dial; 0 after success
    dial_error: str = ""  # why the last request to make it writable failed
    dial_not_before: float = 0.0  # on trio's clock: the end of the back-off
    dialled_until: float = 0.0  # a connection that comes up before is the router's doing
    close_at: float | None = None  # unless it is needed; None if the router didn't make it
    banned_until: float = 0.0  # till then its connections are closed, whoever opened them

    # What is measured of it
    topics_measuring: dict[str, None] = field(default_factory=dict)  # wait for the answer
    probed: bool | None = None  # whether the system ends its connections soon after it is gone
    quiet: Quiet | None = None  # since something last came, as far as was looked
    was_reported: bool = False  # whether it was silent, and asked for a sign of life
    watched: bool = False  # whether something was sent to it since its queue was last seen empty
    took: bool = False  # whether it took something from its queue since that was looked at
    idle_looks: int = 0  # looks in a row at which it had taken nothing, though something was there
    stalled: bool = False  # whether it has taken nothing for `stall_timeout`

    def __post_init__(self) -> None:
        self.key = self.id.to_bytes()

    @property
    def is_needed(self) -> bool:
        """Whether it is a neighbour, or something is under way."""
        return bool(self.topics or self.request is not None or self.backlog)

    def next_sequence_id(self) -> int:
        """The id of the next frame; take it when the frame enters Pubsub's queue.

        Counted for each receiver: with one count for all, a frame that a priority frame
        overtakes in a queue could fall out of its receiver's window.
        """
        self.last_sent += 1
        return self.last_sent

    def forget_topic(self, topic: str) -> None:
        """It isn't a neighbour in `topic` any more: nothing in there waits for it, and what it was
        asked there stays without an answer."""
        self.topics.pop(topic, None)
        self.backlog.forget_pieces(topic)
        self.send_window.forget()

    def note_failed_dial(self, now: float) -> None:
        """Leave the peer alone for `DIAL_BACKOFF`, doubled with each failure in a row."""
        self.dial_pause = min(max(DIAL_BACKOFF, 2 * self.dial_pause), _LONGEST_BACKOFF)
        self.dial_not_before = now + self.dial_pause

    def forget_connection(self) -> None:
        """The last connection closed: the peer may return as something else.

        The next connection is authenticated anew, and a peer that restarted with its clock set
        back must not be locked out by an old window of sequence ids.
        """
        self.side = PeerSide.UNKNOWN
        self.protocol = None
        self.window = ReplayWindow()
        self.records_sent.clear()
        self.send_window = SendWindow()
        self.close_at = None
        self.probed = None
        self.was_reported = False
        self.stalled = False
        self.idle_looks = 0


class PeerListener:
    """Is notified of what happens to peers, afterwards. Override what is of interest."""

    def peer_writable(self, peer: RemotePeer) -> None:
        """Frames can be sent to `peer`, which is on Episub's side."""

    def peer_lost(self, peer: RemotePeer) -> None:
        """`peer` isn't writable any more, or frames for it were lost."""

    def peer_silent(self, peer: RemotePeer) -> None:
        """Nothing has come from `peer` for too long."""

    def dial_wanted(self, peer: RemotePeer, for_others: bool) -> None:
        """`peer` is to be made writable; `for_others` if another node's message asked for it."""

    def dial_failed(self, peer: RemotePeer) -> None:
        """`peer` could not be made writable."""

    def gossipsub_peer_added(self, peer: RemotePeer) -> None:
        """`peer` has a stream over `peer.protocol`, and speaks no Episub."""

    def gossipsub_peer_removed(self, peer: RemotePeer) -> None:
        """`peer` is gone, or has turned out to speak Episub."""


@dataclass(eq=False)
class PeerTable:
    """Every remote peer's record, by the bytes of its id.

    Looking up a peer that has none makes one. Beyond `MAX_PEERS` the oldest goes, but those of
    peers that are banned, connected or needed: a neighbour, until its loss is reported.
    """

    pubsub: Pubsub
    params: RouterParams
    counters: Counters

    def __post_init__(self) -> None:
        self._listeners: list[PeerListener] = []
        self._peers: dict[bytes, RemotePeer] = {}
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
            backlog = Backlog(self.params.backlog_frames, self.params.backlog_bytes)
            self._make_room()
            peer = self._peers[key] = RemotePeer(ID(key), backlog, self._first_sequence_id)
        return peer

    def _make_room(self) -> None:
        """Forget the oldest records that are of no use, beyond the bound."""
        for _ in range(len(self._peers)):
            if len(self._peers) < MAX_PEERS:
                return
            key = next(iter(self._peers))
            peer = self._peers.pop(key)
            if peer.is_needed or self.is_banned(peer) or self.is_connected(peer.id):
                self._peers[key] = peer
            else:
                # Should it come back, its ids start above everything that it was sent.
                self._first_sequence_id = max(self._first_sequence_id, peer.last_sent)

    def known(self, peer: ID) -> RemotePeer | None:
        """What is known of `peer`, if anything is."""
        return self._peers.get(peer.to_bytes())

    def __iter__(self) -> Iterator[RemotePeer]:
        return iter(list(self._peers.values()))

    def __len__(self) -> int:
        return len(self._peers)

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
        if peer.id not in self.pubsub.peers:
            return None
        queue = self.pubsub.peer_queues.get(peer.id)
        return None if queue is None or queue.closed else queue

    def is_connected(self, peer: ID) -> bool:
        return is_connected(self.pubsub.host, peer)

    def protocols(self) -> dict[ID, TProtocol]:
        """What our stream to each peer negotiated."""
        every = self._peers.values()
        return {peer.id: peer.protocol for peer in every if peer.protocol is not None}

    # Arrivals and departures, as the host and Pubsub report them

    def connection_opened(self, peer_id: ID, probed: bool = False, outbound: bool = False) -> None:
        """The host has a new connection to `peer_id`; `probed`: the system ends it by itself if it
        is silent; `outbound`: this side opened it."""
        peer = self[peer_id.to_bytes()]
        known = self.pubsub.host.get_network().get_connections(peer_id)
        if peer.state is PeerState.CLOSED and peer.protocol is None and len(known) <= 1:
            # py-libp2p reports no end of a connection that it cancelled while it came up.
            peer.forget_connection()
        peer.probed = probed and peer.probed is not False
        if self.is_banned(peer):
            self._close_in(peer, 0.0)
        elif outbound and trio.current_time() < peer.dialled_until and peer.close_at is None:
            # The dial may have been given up a moment ago, or have crossed the peer's.
            self.note_dialled(peer)

    def connection_closed(self, peer_id: ID) -> None:
        """A connection to `peer_id` closed, perhaps not the only one."""
        # Pubsub reports the end of a stream that it had itself, and nothing of other peers.
        if peer_id not in self.pubsub.peers and not self.is_connected(peer_id):
            self._depart(self[peer_id.to_bytes()])

    def stream_opened(self, peer_id: ID, protocol: TProtocol) -> None:
        """Pubsub has a stream to `peer_id` over `protocol`, and no queue yet."""
        peer = self[peer_id.to_bytes()]
        peer.protocol = protocol
        if protocol == PROTOCOL_ID or peer.side is PeerSide.EPISUB:
            self._take_to_episub(peer)
            return
        discarded = self._discard(peer) if peer.side is not PeerSide.GOSSIPSUB else 0
        peer.side = PeerSide.GOSSIPSUB
        if discarded:
            self._notify_lost(peer)
        for listener in self._listeners:
            listener.gossipsub_peer_added(peer)

    def look_at_side(self, peer_id: ID) -> RemotePeer:
        """The record of `peer_id`. Its stream to us may come, and bring its subscriptions, before
        ours is open, and be what shows Episub."""
        peer = self[peer_id.to_bytes()]
        if peer.side is not PeerSide.EPISUB and any(
            stream.get_protocol() == PROTOCOL_ID
            for connection in self.pubsub.host.get_network().get_connections(peer_id)
            for stream in connection.get_streams()
        ):
            self.note_episub(peer)
        return peer

    def queue_opened(self, peer_id: ID) -> None:
        """Pubsub has a queue for `peer_id`; it says so again with each new subscription."""
        self._open(self[peer_id.to_bytes()])

    def note_episub(self, peer: RemotePeer) -> None:
        """`peer` sent a frame, or announced that it speaks Episub."""
        if peer.state is PeerState.WRITABLE and peer.side is PeerSide.EPISUB:
            return
        if self.is_connected(peer.id):
            self._take_to_episub(peer)
            self._open(peer)

    def stream_lost(self, peer_id: ID) -> None:
        """Pubsub's stream to `peer_id` is gone, perhaps with the connection."""
        peer = self[peer_id.to_bytes()]
        peer.protocol = None
        peer.stalled = False
        peer.send_window.forget()
        connected = self.is_connected(peer_id)
        if connected and peer.side is PeerSide.EPISUB:
            # Of two connections that crossed, one goes, and Pubsub opens a stream on the other.
            if peer.state is PeerState.WRITABLE:
                self._move(peer, PeerState.INTERRUPTED)
        elif connected:
            self._discard(peer)
            peer.side = PeerSide.UNKNOWN
            self._move(peer, PeerState.CLOSED)
        for listener in self._listeners:
            listener.gossipsub_peer_removed(peer)
        if not connected:
            self._depart(peer)
        elif peer.side is PeerSide.EPISUB:
            self.request(peer)

    # Making peers writable

    def request(self, peer: RemotePeer, for_others: bool = False) -> None:
        """Make `peer` writable; while a request is under way, another adds nothing."""
        self.note_use(peer)
        if peer.request is not None:
            return
        peer.request = trio.Event()
        for listener in self._listeners:
            listener.dial_wanted(peer, for_others)

    def dial_failed(self, peer: RemotePeer) -> None:
        """The request for `peer` ended without success."""
        peer.request = None
        interrupted = peer.state is PeerState.INTERRUPTED
        discarded = 0 if peer.side is PeerSide.GOSSIPSUB else self._discard(peer)
        if not self.is_connected(peer.id):
            self._move(peer, PeerState.CLOSED)
            peer.forget_connection()
        elif interrupted:
            # Without a stream nothing says any more which side the peer is on.
            peer.side = PeerSide.UNKNOWN
            self._move(peer, PeerState.CLOSED)
        for listener in self._listeners:
            listener.dial_failed(peer)
        if interrupted or discarded:
            self._notify_lost(peer)

    # What is found out about peers

    def note_silence(self, peer: RemotePeer) -> None:
        """Nothing has come from `peer` for too long."""
        self.counters.add(Reason.PEER_SILENT)
        for listener in self._listeners:
            listener.peer_silent(peer)

    def stall(self, peer: RemotePeer) -> None:
        """`peer` takes nothing from its queue: what waits for it is dropped."""
        peer.stalled = True
        self.counters.add(Reason.PEER_STALLED)
        self._discard(peer)
        if peer.state is PeerState.WRITABLE:
            self._move(peer, PeerState.CLOSED)
            if peer.side is PeerSide.EPISUB:
                self._notify_lost(peer)

    def resume(self, peer: RemotePeer) -> None:
        peer.stalled = False
        self._open(peer)

    def interrupt(self, peer: RemotePeer) -> None:
        """Pubsub took the queue of `peer` away without saying so: it was blacklisted."""
        if peer.state is PeerState.WRITABLE:
            self._move(peer, PeerState.INTERRUPTED)

    # Connections to close

    def note_dialled(self, peer: RemotePeer) -> None:
        """The router made the connection to `peer`, and may close it again."""
        self._close_in(peer, self.params.idle_timeout)

    def note_use(self, peer: RemotePeer) -> None:
        """`peer` is of use at the moment, released or not."""
        if peer.close_at is not None and not self.is_banned(peer):
            peer.close_at = trio.current_time() + self.params.idle_timeout

    def release(self, peer: RemotePeer) -> None:
        """Nobody needs `peer` at the moment: close its connection soon, if it is ours."""
        if peer.close_at is not None:
            self._close_in(peer, self.params.release_grace)

    # Bans

    def is_banned(self, peer: RemotePeer) -> bool:
        """Whether no connection to `peer` is to stay."""
        return peer.banned_until > 0 and trio.current_time() < peer.banned_until

    def ban(self, peer: RemotePeer, seconds: float) -> None:
        """Close the connections to `peer`, and new ones for `seconds`, and don't dial it."""
        peer.banned_until = max(peer.banned_until, trio.current_time() + seconds)
        peer.dial_not_before = max(peer.dial_not_before, peer.banned_until)
        if self.is_connected(peer.id):
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
            peer.dial_pause, peer.dial_not_before, peer.dial_error = 0.0, peer.banned_until, ""
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
                self._move(peer, PeerState.CLOSED)
            peer.side = PeerSide.EPISUB
            for listener in self._listeners:
                listener.gossipsub_peer_removed(peer)
        peer.side = PeerSide.EPISUB

    def _depart(self, peer: RemotePeer) -> None:
        """The last connection to `peer` closed."""
        discarded = self._discard(peer)
        # What sent a frame counts as connected, writable or not.
        lost = discarded or peer.side is PeerSide.EPISUB or peer.state is PeerState.WRITABLE
        self._move(peer, PeerState.CLOSED)
        peer.forget_connection()
        if lost:
            self._notify_lost(peer)

    def _notify_lost(self, peer: RemotePeer) -> None:
        for listener in self._listeners:
            listener.peer_lost(peer)

    def _discard(self, peer: RemotePeer) -> int:
        if count := peer.backlog.clear():
            self.counters.add(Reason.UNDELIVERABLE, count)
        return count
