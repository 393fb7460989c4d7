"""The record of one remote peer: how far we are from sending to it, and what waits until we can."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import trio
from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID

from episub_router.net.backlog import Backlog
from episub_router.net.pieces.lane import PieceLane
from episub_router.net.sequence import ReplayWindow
from episub_router.util.send_window import SendWindow
from episub_router.wire.root_gate import RootGate
from episub_router.wire.sent_records import SentRecords

PROTOCOL_ID = TProtocol("/episub/1.0.0")

_LONGEST_BACKOFF = 60.0
"""Seconds; py-libp2p blocks a peer that couldn't be dialled for as long."""

_MAX_DOUBLINGS = 16
"""Of the dial back-off; its longest value is reached long before."""


class PeerState(Enum):
    """How far we are from sending to a peer."""

    IDLE = "idle"
    """Not connected, and not being dialled."""
    DIALLING = "dialling"
    """Not connected; a request to make it writable is under way."""
    CONNECTED = "connected"
    """A connection, and no stream of ours over which it takes messages."""
    WRITABLE = "writable"
    """Pubsub has a queue for it, and it takes what is in there."""
    INTERRUPTED = "interrupted"
    """It was writable; its stream broke, and a new one is awaited over the same connection."""


class PeerSide(Enum):
    """Which protocol a peer is served with.

    Each direction negotiates its own, so a peer may choose Episub for its stream to us while
    ours to it fell back to gossipsub. Either is enough for Episub's side.
    """

    UNKNOWN = "unknown"
    EPISUB = "episub"
    GOSSIPSUB = "gossipsub"
    """gossipsub or floodsub."""


@dataclass(slots=True, eq=False)
class RemotePeer:
    """What we know of one peer. `PeerTable` alone changes `state` and `side`."""

    id: ID
    backlog: Backlog
    last_sent: int
    """The sequence id of the last frame to it (E42)."""
    key: bytes = field(init=False)
    """The bytes of `id`, by which the core knows the peer."""
    state: PeerState = PeerState.IDLE
    side: PeerSide = PeerSide.UNKNOWN
    showed_episub: bool = False
    """Whether it sent a frame, announced the extension, or opened an Episub stream to us."""
    protocol: TProtocol | None = None
    """What our stream to it negotiated."""
    window: ReplayWindow = field(default_factory=ReplayWindow)
    """Sequence ids received over the connection."""
    roots: RootGate = field(default_factory=RootGate)
    """How much of ROOT it may still send."""
    records_sent: SentRecords = field(default_factory=SentRecords)
    """Address records that it has from us."""
    pieces: PieceLane = field(default_factory=PieceLane)
    """What waits for it behind `backlog`."""
    send_window: SendWindow = field(default_factory=SendWindow)
    """How far it may be behind with what this node publishes."""
    request: trio.Event | None = None
    """While it is to be made writable; set when it is."""
    topics_dialling: dict[str, None] = field(default_factory=dict)
    """Topics that wait for an answer to `Dial`."""
    topics_measuring: dict[str, None] = field(default_factory=dict)
    """Topics that wait for an answer to `MeasureRtt`."""
    failed_dials: int = 0
    """In a row."""
    dial_error: str = ""
    """Why the last request to make it writable failed."""
    dial_not_before: float = 0.0
    """Seconds on trio's clock: the end of the back-off."""
    dialled_until: float = 0.0
    """Seconds on trio's clock: a connection to it that comes up before is the router's doing."""
    close_at: float | None = None
    """When to close its connection unless it is needed; None if the router didn't make it."""
    banned_until: float = 0.0
    """Seconds on trio's clock: till then its connections are closed, whichever side opened them."""
    probed: bool | None = None
    """Whether the system ends each of its connections soon after it is gone; None while unknown."""
    was_reported: bool = False
    """Whether nothing came from it for so long that it was asked for a sign of life."""
    watched: bool = False
    """Whether something was sent to it since its queue was last seen empty."""
    taken: int = 0
    """How much it had taken from its queue when that was last looked at."""
    idle_looks: int = 0
    """Looks in a row at which it had taken nothing, though something was there."""
    stalled: bool = False
    """Whether it has taken nothing for `stall_timeout`."""

    def __post_init__(self) -> None:
        self.key = self.id.to_bytes()

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
        self.pieces.forget(topic)
        self.send_window.forget()

    def note_failed_dial(self, now: float, first: float) -> None:
        """Leave the peer alone for `first` seconds, doubled with each failure in a row."""
        pause = first * 2 ** min(self.failed_dials, _MAX_DOUBLINGS)
        self.failed_dials += 1
        self.dial_not_before = now + min(pause, _LONGEST_BACKOFF)

    def forget_connection(self) -> None:
        """The last connection closed: the peer may return as something else.

        The next connection is authenticated anew, and a peer that restarted with its clock set
        back must not be locked out by an old window of sequence ids.
        """
        self.side = PeerSide.UNKNOWN
        self.showed_episub = False
        self.protocol = None
        self.window = ReplayWindow()
        self.records_sent.clear()
        self.send_window = SendWindow()
        self.close_at = None
        self.probed = None
        self.was_reported = False
        self.stalled = False
        self.idle_looks = 0
