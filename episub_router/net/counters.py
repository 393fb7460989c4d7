"""Counts by reason: what was received, sent, dropped and went wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType


class Reason(Enum):
    """What the router itself counts; `DropReason` and the wire's faults come on top."""

    FRAMES_RECEIVED = "frames-received"
    FRAMES_SENT = "frames-sent"
    PAYLOADS_RECEIVED = "payloads-received"
    """Copies of payload messages, the first one and duplicates."""
    PAYLOADS_SENT = "payloads-sent"
    PIECES_RECEIVED = "pieces-received"
    PIECES_SENT = "pieces-sent"
    ASSEMBLED = "assembled"
    """Large messages of which all pieces came."""
    DELIVERED = "delivered"
    PUBLISHED = "published"
    NOT_EPISUB = "not-episub"
    """An RPC with control messages and no Episub frame."""
    FRAME_UNUSABLE = "frame-unusable"
    """A frame that can't be parsed, or without topic or sequence id."""
    BLACKLISTED = "blacklisted"
    REPLAYED = "replayed"
    TOPIC_NOT_JOINED = "topic-not-joined"
    LEAVE_REFUSED = "leave-refused"
    """A relayed LEAVE that is unproven, old or repeated."""
    ROOTS_EXCESS = "roots-excess"
    """Lines of ROOT beyond what one peer may send."""
    PREAMBLE_FORGED = "preamble-forged"
    """A large message whose author didn't sign its preamble, or whose id isn't the author's."""
    PREAMBLE_KEY_REFUSED = "preamble-key-refused"
    """A large message whose author's key is none that preambles may have."""
    PREAMBLE_TOO_LARGE = "preamble-too-large"
    """A large message above `max_message_size`."""
    MESSAGE_MISMATCHED = "message-mismatched"
    """A message in pieces that isn't what its signed preamble says: its author's fault."""
    PIECE_LANE_FULL = "piece-lane-full"
    """A piece for a peer for which too many wait; the peer asks for it again."""
    MESSAGE_ID_FAILED = "message-id-failed"
    """The application's message id function raised."""
    OVERSIZE = "oversize"
    UNENCODABLE = "unencodable"
    """A topic or a message id that doesn't fit a frame."""
    BACKLOG_FULL = "backlog-full"
    UNDELIVERABLE = "undeliverable"
    """Frames held for a peer that never became writable, went away, or takes nothing."""
    PEER_STALLED = "peer-stalled"
    """A peer took nothing from its queue for `stall_timeout`."""
    PEER_SILENT = "peer-silent"
    """Nothing came from a peer for so long that it was asked for a sign of life."""
    DIALS = "dials"
    DIAL_FAILED = "dial-failed"
    DIAL_NO_ADDRESS = "dial-no-address"
    DIAL_BACKED_OFF = "dial-backed-off"
    DIAL_UNAFFORDABLE = "dial-unaffordable"
    """A dial on another peer's word, beyond what its informant or the target may cost."""
    DIALS_FULL = "dials-full"
    NO_EPISUB_STREAM = "no-episub-stream"
    """Connected, but the peer opened no Episub stream in time."""
    CONNECTIONS_CLOSED = "connections-closed"
    PINGS_FAILED = "pings-failed"
    CONTACTS_FOUND = "contacts-found"
    """Peers that a discovery or the bootstrap list named, each time."""
    DISCOVERY_FAILED = "discovery-failed"
    """A discovery raised, took too long, or answered with something that is no list."""
    DISCOVERY_UNUSABLE = "discovery-unusable"
    """An entry of its answer that is no peer, or has no readable address."""
    DISCOVERY_EXCESS = "discovery-excess"
    """Entries beyond what is looked at."""
    FANOUT_EMPTY = "fanout-empty"
    """Published to a topic with no known subscriber."""
    BANS = "bans"
    """Neighbours that were banned."""
    ERROR = "error"
    """An exception that was caught at the router's edge: a bug, ours or below us."""


ORDINARY = frozenset(
    {
        Reason.FRAMES_RECEIVED,
        Reason.FRAMES_SENT,
        Reason.PAYLOADS_RECEIVED,
        Reason.PAYLOADS_SENT,
        Reason.PIECES_RECEIVED,
        Reason.PIECES_SENT,
        Reason.ASSEMBLED,
        Reason.DELIVERED,
        Reason.PUBLISHED,
        Reason.NOT_EPISUB,
        Reason.DIALS,
        Reason.CONNECTIONS_CLOSED,
        Reason.CONTACTS_FOUND,
    }
)
"""Counts of what went well; a trace has all others as discards."""


class Counters:
    """Counts by the name of a reason. Bounded: every reason is a member of some enum."""

    __slots__ = ("_counts", "_listeners")

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._listeners: list[Callable[[Enum, int], None]] = []

    def listen(self, listener: Callable[[Enum, int], None]) -> None:
        """Call `listener` with each addition."""
        self._listeners.append(listener)

    def add(self, reason: Enum, count: int = 1) -> None:
        name = reason.value
        self._counts[name] = self._counts.get(name, 0) + count
        for listener in self._listeners:
            listener(reason, count)

    def __getitem__(self, reason: Enum) -> int:
        return self._counts.get(reason.value, 0)

    def view(self) -> Mapping[str, int]:
        """A copy, by name."""
        return MappingProxyType(dict(self._counts))
