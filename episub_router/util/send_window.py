"""How far a peer may be behind with what this node publishes.

Yamux lets a peer that reads slowly have up to 16 MiB waiting, and TCP more: a publisher that only
looks at its own queues is minutes ahead of such a peer, and each GRAFT and its answer wait behind
all of it. So every now and then a neighbour is queried (NEIGHBOR, E11) behind what it was sent: its
list says that it has read so far.
"""

from __future__ import annotations

from episub_router.util.params import Rate
from episub_router.util.token_buckets import TokenBuckets

FIRST_WINDOW = 256 * 1024
"""Bytes that a peer may be behind at first. Yamux's first window."""

LEAST_WINDOW = 64 * 1024
"""Chosen: some forty messages of 1 kB, so that writes stay large."""

MOST_WINDOW = 16 * 2**20
"""Yamux's largest window: beyond, the peer's own stream waits."""

_QUICK = 1.0
"""Seconds; where the list comes within, the window grows. Chosen: several round trips."""

_SLOW = 4.0
"""Seconds; where it takes longer, the window shrinks. Chosen: less than the five seconds
after which a missing message is given up (`plumtree/missing_messages.py`)."""

_PATIENCE = 30.0
"""Seconds without a list after which the peer isn't waited for until one comes. Chosen: half of
`publish_timeout`; one that has stopped is noticed before."""

_OVERHEAD = 256
"""Bytes that a message counts beside its own: signature, keys, headers."""

_QUERIES = Rate(0.25, 6)
"""Queries a second, and at once. Chosen: a quarter of the NEIGHBORs that a peer takes, since each
has an answer, and both ends may publish (`hyparview/machine.py`)."""


class SendWindow:
    """What one peer was sent of our own messages, and what it has read of them. Times in seconds,
    sizes in bytes."""

    __slots__ = ("_marked", "_marked_at", "_queries", "_read", "_sent", "_silent", "size")

    def __init__(self) -> None:
        self.size = FIRST_WINDOW
        self._sent = 0
        self._read = 0
        self._marked = 0
        """What had been sent at the query that isn't answered yet; 0 without one."""
        self._marked_at = 0.0
        self._silent = False
        """Whether it left a query unanswered."""
        self._queries: TokenBuckets[None] = TokenBuckets(_QUERIES, 1)

    @property
    def behind(self) -> int:
        """Bytes that the peer may not have read yet."""
        return self._sent - self._read

    def has_room(self, size: int, now: float) -> bool:
        """Whether a message of `size` may be sent: always, to one that has read everything."""
        if self._marked and now - self._marked_at > _PATIENCE:
            self._silent = True
            self._marked = 0
        return self._silent or not self.behind or self.behind + size + _OVERHEAD <= self.size

    def note_sent(self, size: int) -> None:
        """A message of `size` goes to the peer."""
        self._sent += size + _OVERHEAD

    def is_query_due(self, now: float, size: int = 0) -> bool:
        """Whether to query the peer: half of the window is in use, or the next message, of `size`,
        finds no room."""
        if self._marked or not self.behind:
            return False
        much = self.behind >= self.size / 2 or self.behind + size + _OVERHEAD > self.size
        return much and self._queries.has(None, now)

    def note_query(self, now: float) -> None:
        """The peer is queried."""
        self._queries.spend(None, now)
        self._marked, self._marked_at = self._sent, now

    def forget(self) -> None:
        """No answer will come: the peer answers no queries, or what was sent to it is gone."""
        self._read, self._marked = self._sent, 0

    def note_read(self, now: float) -> None:
        """The peer has answered: it has read what came before the query."""
        if not self._marked:
            return
        self._silent = False
        took = now - self._marked_at
        if took > _SLOW:
            self.size = max(LEAST_WINDOW, self.size // 2)
        elif took < _QUICK and self.behind >= self.size / 2:
            self.size = min(MOST_WINDOW, 2 * self.size)
        self._read, self._marked = self._marked, 0
