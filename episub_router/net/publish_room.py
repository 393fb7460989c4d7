"""Backpressure towards the publisher: room for this node's own messages.

What is forwarded for others never waits; it has the rest of each backlog to itself.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import trio

from episub_router.net.outbound import FLUSH_INTERVAL
from episub_router.net.params import RouterParams
from episub_router.net.peers import RemotePeer
from episub_router.publishing import BacklogFull, PublishTimeout
from episub_router.util.keyed_locks import KeyedLocks
from episub_router.util.params import Rate
from episub_router.util.token_buckets import TokenBuckets

logger = logging.getLogger(__name__)

PUBLISH_WINDOW = 64
"""Messages in the backlog of one peer, behind Pubsub's queue of 32, up to which more are
published; chosen: what a peer takes in the 10 ms between two looks for room, twice over."""

LARGE_WINDOW = 256 * 1024
"""Bytes of pieces for one peer up to which another large message is published; chosen: 100 ms at
20 Mbit/s, so that an uplink doesn't fall idle."""

_MILLISECONDS = 1000

_WAIT_SHARE = 0.2
"""Part of the time for which one receiver may hold up those that keep up, after `stall_timeout`;
chosen: it slows them down by a quarter at most. What it has no room for then is
announced to it."""

_MAX_PEERS = 1024
"""Receivers that are remembered, so that a link that is new gives no new time; chosen."""

_SHARE = 0.5
"""Of the bytes that a backlog holds; the other half is for what is forwarded."""

_HELD_UP = 1.0
"""Seconds after which the log says whom a message waits for; chosen."""


@dataclass(eq=False)
class PublishRoom:
    """Admits messages of this node, of each topic in the order in which it was asked.

    A message is admitted when none of those that it will be pushed to has too much waiting. One
    that takes nothing for `RouterParams.stall_timeout` doesn't count any more, nor does one for
    which others have waited too long.
    """

    params: RouterParams
    may_cut: Callable[[Sequence[str], int], bool]
    """Whether a message of these topics and size goes in pieces."""
    query: Callable[[str, RemotePeer], bool]
    """Asks a peer for its list behind what it was sent; False where it isn't a neighbour."""
    receivers: list[Callable[[str], Iterable[RemotePeer]]] = field(default_factory=list)
    """Each gives some of those that a message of a topic is pushed to."""

    def __post_init__(self) -> None:
        self._turns: KeyedLocks[str] = KeyedLocks()
        """Held by the first that waits for room in a topic."""
        # Time grows back while it is spent.
        at_once = int(_MILLISECONDS * self.params.stall_timeout * (1 - _WAIT_SHARE))
        allowed = Rate(_MILLISECONDS * _WAIT_SHARE, at_once)
        self._waits: TokenBuckets[bytes] = TokenBuckets(allowed, _MAX_PEERS)
        """How long each receiver may still hold up those that keep up."""
        self._messages = 0
        self._bytes = 0
        """Admitted, and not in the backlogs yet."""

    @asynccontextmanager
    async def reserve(
        self,
        topics: Sequence[str],
        size: int,
        timeout: float | None,  # noqa: ASYNC109 (it raises an error of its own)
    ) -> AsyncIterator[None]:
        """Wait for room for a message of `size` bytes, and keep it while the context lasts.

        `timeout` is in seconds, None for `publish_timeout`, and 0 to raise BacklogFull at once.
        Raises PublishTimeout.
        """
        if any(topic in self._turns for topic in topics) or self._blocking(topics, size):
            self._query(topics, size, late=True)
            if timeout is not None and timeout <= 0:
                raise BacklogFull(f"no room to publish: {self._fullest(topics)}")
            await self._wait(topics, size, timeout or self.params.publish_timeout)
        self._messages += 1
        self._bytes += size
        try:
            yield
            self._query(topics, size)
        finally:
            self._messages -= 1
            self._bytes -= size

    async def _wait(self, topics: Sequence[str], size: int, seconds: float) -> None:
        log_at = trio.current_time() + _HELD_UP
        with trio.move_on_after(seconds) as scope:
            async with AsyncExitStack() as turns:
                for topic in sorted(set(topics)):
                    await turns.enter_async_context(self._turns.held(topic))
                # Pubsub's queues can't be awaited.
                while blocking := self._blocking(topics, size):
                    self._query(topics, size, late=True)
                    since = trio.current_time()
                    await trio.sleep(FLUSH_INTERVAL)
                    now = trio.current_time()
                    if now >= log_at:
                        log_at = math.inf
                        logger.info("publishing is held up: %s", self._fullest(topics))
                    if len(blocking) < len(self._receivers(topics)):
                        for peer in blocking:
                            # Once, however many topics wait for it.
                            begin = max(since, peer.waited_for_until)
                            self._waits.spend(peer.key, now, _MILLISECONDS * (now - begin))
                            peer.waited_for_until = now
        if scope.cancelled_caught:
            raise PublishTimeout(f"no room to publish: {self._fullest(topics)}")

    def _receivers(self, topics: Sequence[str]) -> list[tuple[str, RemotePeer]]:
        return [
            (topic, peer)
            for topic in topics
            for source in self.receivers
            for peer in source(topic)
            if not peer.stalled
        ]

    def _blocking(self, topics: Sequence[str], size: int) -> list[RemotePeer]:
        """The receivers that a message of `size` has to wait for."""
        now = trio.current_time()
        peers = [peer for _, peer in self._receivers(topics)]
        in_pieces = self.may_cut(topics, size)
        late = [peer for peer in peers if not self._takes(peer, size, in_pieces, now)]
        if len(late) == len(peers):
            return late
        return [peer for peer in late if self._waits.has(peer.key, now, 0)]

    def _takes(self, peer: RemotePeer, size: int, in_pieces: bool, now: float) -> bool:
        """Whether there is room for a message of `size` to `peer`."""
        backlog, most_bytes = peer.backlog, _SHARE * self.params.backlog_bytes
        if in_pieces:
            # To those that take pieces and to others: when nearly all of the last one is sent.
            return not (self._messages or backlog.messages or backlog.piece_bytes > LARGE_WINDOW)
        if not self._messages and size > most_bytes:
            return not backlog.messages
        size += self._bytes
        most = min(PUBLISH_WINDOW, self.params.backlog_frames) - self._messages
        return (
            backlog.messages < most
            and backlog.size <= most_bytes - size
            and peer.send_window.has_room(size, now)
        )

    def _query(self, topics: Sequence[str], size: int, late: bool = False) -> None:
        """Query those that got much since they were queried last, a message of `size` among it; or
        those that are too `late` to get it. Pieces wait for their own room."""
        if self.may_cut(topics, size):
            return
        now, more = trio.current_time(), size + self._bytes if late else 0
        for topic, peer in self._receivers(topics):
            window = peer.send_window
            if not late:
                window.note_sent(size)
            elif window.has_room(more, now):
                continue
            if window.is_query_due(now, more):
                if self.query(topic, peer):
                    window.note_query(now)
                else:
                    window.forget()

    def _fullest(self, topics: Sequence[str]) -> str:
        peers = [peer for _, peer in self._receivers(topics)]
        if not peers:
            return "others are waiting to publish"
        peer = max(peers, key=lambda peer: (peer.backlog.messages, peer.send_window.behind))
        if not peer.backlog.messages:
            return f"{peer.id} may not have read the last {peer.send_window.behind:,} bytes"
        return f"{peer.backlog.messages} messages wait for {peer.id}"
