"""Counts by reason: what was received, sent, dropped and went wrong; and log lines about what had
no room, with what can be done about it."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import Enum

import trio

from episub_router.protocol.effects import DropReason

logger = logging.getLogger(__name__)


class Ordinary(Enum):
    """What the router counts of what goes well; a trace has all else as discards."""

    FRAMES_RECEIVED = "frames-received"  # Episub frames received
    FRAMES_SENT = "frames-sent"  # Episub frames that entered an outbound queue
    PAYLOADS_RECEIVED = "payloads-received"
    """Copies of payload messages, the first one and duplicates."""
    PAYLOADS_SENT = "payloads-sent"  # Copies of payload messages that entered an outbound queue
    PIECES_RECEIVED = "pieces-received"  # Pieces that came, late and bad ones included
    PIECES_SENT = "pieces-sent"  # Pieces that entered an outbound queue
    ASSEMBLED = "assembled"
    """Large messages of which all pieces came."""
    DELIVERED = "delivered"  # Messages accepted, own ones included
    PUBLISHED = "published"  # Own messages, in topics that were joined
    NOT_EPISUB = "not-episub"
    """An RPC with control messages and no Episub frame."""
    DIALS = "dials"  # Dials begun
    CONNECTIONS_CLOSED = "connections-closed"  # Connections of the router's that nothing needed
    CONTACTS_FOUND = "contacts-found"
    """Peers that a discovery or the bootstrap list named, each time."""


class Reason(Enum):
    """What the router itself drops or fails at; `DropReason` and the wire's faults come on top."""

    FRAME_UNUSABLE = "frame-unusable"
    """A frame that can't be parsed, or without topic or sequence id."""
    BLACKLISTED = "blacklisted"  # Frames of a blacklisted peer
    REPLAYED = "replayed"  # Frames whose sequence id was used before, or is too old
    TOPIC_NOT_JOINED = "topic-not-joined"  # Frames of a topic that this node isn't in
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
    OVERSIZE = "oversize"  # Frames beyond an RPC's size, not sent
    UNENCODABLE = "unencodable"
    """A topic or a message id that doesn't fit a frame."""
    BACKLOG_FULL = "backlog-full"  # Messages beyond a backlog; payloads are announced instead
    UNDELIVERABLE = "undeliverable"
    """Frames held for a peer that never became writable, went away, or takes nothing."""
    PEER_STALLED = "peer-stalled"
    """A peer took nothing from its queue for `stall_timeout`."""
    PEER_SILENT = "peer-silent"
    """Nothing came from a peer for so long that it was asked for a sign of life."""
    DIAL_FAILED = "dial-failed"  # Dials that failed at every address
    DIAL_NO_ADDRESS = "dial-no-address"  # Peers to dial of which no address is known
    DIAL_BACKED_OFF = "dial-backed-off"  # Dials not made, since the last one failed moments before
    DIAL_UNAFFORDABLE = "dial-unaffordable"
    """A dial on another peer's word, beyond what its informant or the target may cost."""
    DIALS_FULL = "dials-full"  # Dials not made, with too many under way
    NO_EPISUB_STREAM = "no-episub-stream"
    """Connected, but the peer opened no Episub stream in time."""
    PINGS_FAILED = "pings-failed"  # Measurements of a round trip that failed
    DISCOVERY_FAILED = "discovery-failed"
    """A discovery raised, took too long, or answered with something that is no list."""
    DISCOVERY_UNUSABLE = "discovery-unusable"
    """An entry of its answer that is no peer, or has no readable address."""
    DISCOVERY_EXCESS = "discovery-excess"
    """Entries beyond those that are read."""
    FANOUT_EMPTY = "fanout-empty"
    """Published to a topic with no known subscriber."""
    BANS = "bans"
    """Neighbours that were banned."""
    ERROR = "error"
    """An exception that was caught at the router's edge: a bug, ours or below us."""


class Counters:
    """Counts by the name of a reason. Bounded: every reason is a member of some enum."""

    __slots__ = ("_counts", "_listeners", "_logged")

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._logged: set[str] = set()
        self._listeners: list[Callable[[Enum, int], None]] = []

    def listen(self, listener: Callable[[Enum, int], None]) -> None:
        """Call `listener` with each addition."""
        self._listeners.append(listener)

    def add(self, reason: Enum, count: int = 1) -> None:
        self._counts[reason.value] += count
        for listener in self._listeners:
            listener(reason, count)

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Count an exception as an ERROR, and log the first one of `what`: a bug in here must not
        reach Pubsub, and through it the host, which would stop."""
        try:
            yield
        except Exception:
            self.caught(what)

    def caught(self, what: str) -> None:
        """The same, of the exception that is being handled: many times a second this is quicker."""
        self.add(Reason.ERROR)
        if what not in self._logged:
            self._logged.add(what)
            logger.exception("%s failed; further failures are only counted", what)

    def __getitem__(self, reason: Enum) -> int:
        return self._counts[reason.value]

    def view(self) -> Mapping[str, int]:
        """A copy, by name."""
        return dict(self._counts)


INTERVAL = 60.0
"""Seconds between two lines of one kind; chosen."""

ADVICE: dict[Enum, str] = {
    Reason.BACKLOG_FULL: "a neighbour takes less than is sent to it, and gets announcements in "
    "place of these; publish through ResilientPubsub, which waits, or raise "
    "RouterParams.backlog_bytes",
    Reason.PEER_STALLED: "a peer took nothing for RouterParams.stall_timeout, and what waited for "
    "it is dropped; look at its load and at the link to it",
    Reason.DIALS_FULL: "too many peers are to be dialled at once; join fewer topics at a time",
    DropReason.MESSAGE_LOST: "announced messages were not cached any more by those that announced "
    "them; publish less at a time, or raise BroadcastParams.cache_ttl and cache_bytes everywhere",
    DropReason.MISSING_FULL: "more messages are missing than can be asked for; this node is "
    "behind: give it more CPU, or publish less at a time",
    DropReason.PENDING_FULL: "more messages are in validation than can be followed; make the "
    "topic's validators faster",
}
"""By reason: what it means, and what to do."""


class DropLog:
    """Logs each drop at DEBUG, and those that somebody can do something about as one WARNING for
    each kind and minute, with how many there were."""

    def __init__(self) -> None:
        self._next: dict[Enum, float] = {}
        self._count: Counter[Enum] = Counter()

    def counted(self, reason: Enum, count: int) -> None:
        """`count` more of `reason`."""
        if isinstance(reason, Ordinary):
            return
        logger.debug("%s: %d", reason.value, count)
        advice = ADVICE.get(reason)
        if advice is None:
            return
        self._count[reason] += count
        now = trio.current_time()
        if now >= self._next.get(reason, now):
            self._next[reason] = now + INTERVAL
            since = self._count.pop(reason)
            logger.warning("%s: %d since the last line: %s", reason.value, since, advice)
