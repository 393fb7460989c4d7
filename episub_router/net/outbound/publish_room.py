"""Backpressure towards the publisher: room for this node's own messages.

What is forwarded for others never waits; it has the rest of each backlog to itself.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager

import trio

from episub_router.net.outbound.outbox import FLUSH_INTERVAL
from episub_router.net.params import RouterParams
from episub_router.net.peer import RemotePeer
from episub_router.publishing import BacklogFull, PublishTimeout

PUBLISH_WINDOW = 64
"""Messages in the backlog of one peer, behind Pubsub's queue of 32, up to which more are
published; ours: what a peer takes in the 10 ms between two looks for room, twice over."""

LARGE_WINDOW = 256 * 1024
"""Bytes of pieces for one peer up to which another large message is published; ours: 100 ms at
20 Mbit/s, so that an uplink doesn't fall idle."""

_SHARE = 0.5
"""Of the bytes that a backlog holds; the other half is for what is forwarded."""


class PublishRoom:
    """Admits messages of this node, in the order in which it was asked.

    A message is admitted when none of those that it will be pushed to has too much waiting. A
    peer that takes nothing for `RouterParams.stall_timeout` doesn't count any more.
    """

    def __init__(
        self,
        params: RouterParams,
        large: int = 0,
        query: Callable[[str, RemotePeer], bool] = lambda topic, peer: False,
    ) -> None:
        """Messages of `large` bytes and more go in pieces, if it isn't 0. `query` asks a peer for
        its list behind what it was sent, or returns False where it isn't a neighbour."""
        self._params = params
        self._large = large
        self._sources: list[Callable[[str], Iterable[RemotePeer]]] = []
        self._turn = trio.Lock()
        self._messages = 0
        self._bytes = 0
        """Admitted, and not in the backlogs yet."""
        self._query = query

    def add_receivers(self, receivers: Callable[[str], Iterable[RemotePeer]]) -> None:
        """`receivers` has those that a message of a topic is pushed to."""
        self._sources.append(receivers)

    @asynccontextmanager
    async def reserve(
        self, topics: Sequence[str], size: int, patience: float | None
    ) -> AsyncIterator[None]:
        """Wait for room for a message of `size` bytes, and keep it while the context lasts.

        `patience` is in seconds, None for `publish_timeout`, and 0 to raise BacklogFull at once.
        Raises PublishTimeout.
        """
        if patience is None:
            patience = self._params.publish_timeout
        if self._turn.locked() or not self._has_room(topics, size):
            if patience <= 0:
                raise BacklogFull(f"no room to publish: {self._fullest(topics)}")
            await self._wait(topics, size, patience)
        self._messages += 1
        self._bytes += size
        try:
            yield
            self._note_published(topics, size)
        finally:
            self._messages -= 1
            self._bytes -= size

    async def _wait(self, topics: Sequence[str], size: int, patience: float) -> None:
        with trio.move_on_after(patience) as scope:
            async with self._turn:
                # Pubsub's queues can't be awaited.
                while not self._has_room(topics, size):  # noqa: ASYNC110
                    await trio.sleep(FLUSH_INTERVAL)
        if scope.cancelled_caught:
            raise PublishTimeout(
                f"no room to publish within {round(patience, 3):g} s: {self._fullest(topics)}"
            )

    def _receivers_by_topic(self, topics: Sequence[str]) -> list[tuple[str, RemotePeer]]:
        return [
            (topic, peer)
            for topic in topics
            for source in self._sources
            for peer in source(topic)
            if not peer.stalled
        ]

    def _receivers(self, topics: Sequence[str]) -> list[RemotePeer]:
        return [peer for _, peer in self._receivers_by_topic(topics)]

    def _has_room(self, topics: Sequence[str], size: int) -> bool:
        if 0 < self._large <= size:
            # To those that take pieces and to others: when nearly all of the last one is sent.
            return not self._messages and not any(
                peer.backlog or peer.pieces.size > LARGE_WINDOW for peer in self._receivers(topics)
            )
        if not self._messages and size > _SHARE * self._params.backlog_bytes:
            return not any(peer.backlog for peer in self._receivers(topics))
        receivers = self._receivers_by_topic(topics)
        if not self._have_read(receivers, size + self._bytes):
            return False
        most_bytes = _SHARE * self._params.backlog_bytes - self._bytes - size
        most = min(PUBLISH_WINDOW, self._params.backlog_frames) - self._messages
        return all(
            len(peer.backlog) < most and peer.backlog.size <= most_bytes for _, peer in receivers
        )

    def _note_published(self, topics: Sequence[str], size: int) -> None:
        """Query those that have got much since they were queried last."""
        if 0 < self._large <= size:
            return  # Pieces wait for their own room.
        for topic, peer in self._receivers_by_topic(topics):
            peer.send_window.note_sent(size)
            self._query_if_due(topic, peer)

    def _query_if_due(self, topic: str, peer: RemotePeer, size: int = 0) -> None:
        now = trio.current_time()
        if peer.send_window.is_query_due(now, size):
            if self._query(topic, peer):
                peer.send_window.note_query(now)
            else:
                peer.send_window.forget()

    def _have_read(self, receivers: Iterable[tuple[str, RemotePeer]], size: int) -> bool:
        """Whether none of `receivers` is too far behind; those that are, are queried."""
        now = trio.current_time()
        late = [(t, peer) for t, peer in receivers if not peer.send_window.has_room(size, now)]
        for topic, peer in late:
            self._query_if_due(topic, peer, size)
        return not late

    def _fullest(self, topics: Sequence[str]) -> str:
        peers = self._receivers(topics)
        if not peers:
            return "others are waiting to publish"
        peer = max(peers, key=lambda peer: (len(peer.backlog), peer.send_window.behind))
        if not peer.backlog:
            return f"{peer.id} may not have read the last {peer.send_window.behind:,} bytes"
        return f"{len(peer.backlog)} messages wait for {peer.id}"
