"""How often a peer may ask, by channel and altogether, and how much a host asks at a time."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TypeVar

import trio

from episub_router.util.params import Rate
from episub_router.util.token_buckets import TokenBuckets

K = TypeVar("K")


class RequestLimiter:
    """A peer that asks for many channels has a share for each, and a bound for all. The logs that
    it lets us hash have a bound of their own."""

    def __init__(self) -> None:
        self._by_channel: TokenBuckets[tuple[str, str, str]] = TokenBuckets(
            CHANNEL_RATE, _CHANNEL_BUCKETS
        )
        self._by_peer: TokenBuckets[str] = TokenBuckets(PEER_RATE, _PEER_BUCKETS)
        self._hashed: TokenBuckets[str] = TokenBuckets(HASHED_RATE, _PEER_BUCKETS)

    def wait(self, peer: str, channel: tuple[str, str] | None, now: float) -> float:
        """0 where a request is allowed; else the seconds after which to ask again.

        `channel`: topic and id of one that there is, None for any other.
        """
        wait = self._by_peer.wait(peer, now, 1) or self._hashed.wait(peer, now)
        if not wait and channel is not None:
            wait = self._by_channel.wait((peer, *channel), now, 1)
        if not wait:
            self._by_peer.spend(peer, now)
            if channel is not None:
                self._by_channel.spend((peer, *channel), now)
        return wait

    def hashed(self, peer: str, messages: int, now: float) -> None:
        """So many messages of a log are hashed for a comparison."""
        self._hashed.spend(peer, now, messages)


@dataclass(frozen=True, slots=True, eq=False)
class _Waiting:
    """A request to `peer` that waits until it is `admitted`."""

    peer: str
    admitted: trio.Event


class HostPace:
    """How many requests of a host are under way: fewer, the longer answers take.

    Where a thousand channels join at once on a busy machine, each request of many would take
    longer than py-libp2p gives a stream to open (10 s), and none would end. Requests for messages
    go before comparisons, up to three for each one that waits: else a thousand comparisons come
    first, and what they find missing would be asked of the group meanwhile. A peer that has half
    of those under way waits for the others, so that one that never answers holds them up no longer
    than a request may take.
    """

    def __init__(self) -> None:
        self._size = float(FEWEST_ASKS)
        self._under_way = 0
        self._admitted = 0
        self._by_peer: Counter[str] = Counter()
        """Those under way."""
        self._urgent: deque[_Waiting] = deque()
        self._others: deque[_Waiting] = deque()
        self._waiting: Counter[str] = Counter()
        """By peer, those in both queues."""

    @property
    def size(self) -> int:
        """Requests that may be under way."""
        return int(self._size)

    @asynccontextmanager
    async def turn(self, peer: str, *, urgent: bool) -> AsyncIterator[None]:
        """Wait until another request may go out to `peer`, and count it until the context ends."""
        if self._under_way >= self.size:
            await self._wait(peer, self._urgent if urgent else self._others)
        else:
            self._begin(peer)
        try:
            yield
        finally:
            self._end(peer)

    def _begin(self, peer: str) -> None:
        self._under_way += 1
        self._by_peer[peer] += 1

    def _end(self, peer: str) -> None:
        self._under_way -= 1
        take_one(self._by_peer, peer)
        self._admit()

    async def _wait(self, peer: str, queue: deque[_Waiting]) -> None:
        waiting = _Waiting(peer, trio.Event())
        queue.append(waiting)
        self._waiting[peer] += 1
        try:
            await waiting.admitted.wait()
        except trio.Cancelled:
            if waiting.admitted.is_set():
                self._end(peer)
            else:
                queue.remove(waiting)
                take_one(self._waiting, peer)
            raise

    def _admit(self) -> None:
        while self._under_way < self.size and (self._urgent or self._others):
            self._admitted += 1
            fourth = self._admitted % _OTHERS_TURN == 0
            queues = (self._others, self._urgent) if fourth else (self._urgent, self._others)
            chosen = self._next(*queues)
            take_one(self._waiting, chosen.peer)
            self._begin(chosen.peer)
            chosen.admitted.set()

    def _next(self, first: deque[_Waiting], second: deque[_Waiting]) -> _Waiting:
        """The first of a peer that has less than half of those under way, if there is one."""
        if any(self._has_room(peer) for peer in self._waiting):
            for queue in (first, second):
                for index, waiting in enumerate(queue):
                    if self._has_room(waiting.peer):
                        del queue[index]
                        return waiting
        return (first or second).popleft()

    def _has_room(self, peer: str) -> bool:
        return 2 * self._by_peer[peer] < self.size

    def took(self, seconds: float) -> None:
        """A request had its answer, or none, after so long."""
        if seconds > SLOW_ANSWER:
            self._size = max(FEWEST_ASKS, self._size * 0.75)
        else:
            self._size = min(MOST_ASKS, self._size + 1 / self._size)
        self._admit()


def take_one(counts: Counter[K], of: K) -> None:
    """Count one less `of` them; what there is none of is forgotten."""
    counts[of] -= 1
    if not counts[of]:
        del counts[of]


_OTHERS_TURN = 4
"""Of so many requests that waited one is a comparison, if there is one (chosen)."""
MOST_ASKS = 16
FEWEST_ASKS = 4
"""Requests of a host under way at once, at most and at least (chosen)."""
SLOW_ANSWER = 2.0
"""Seconds: longer than any link's four round trips, so that the machine must be busy (chosen)."""
CHANNEL_RATE = Rate(20.0, 60)
"""Requests for one channel: a page of a thousand messages each is more than a member can take in
(chosen)."""
PEER_RATE = Rate(500.0, 2000)
"""Requests for all channels: 300 channels that join at once, within a second (chosen)."""
HASHED_RATE = Rate(250_000.0, 10_000_000)
"""Messages whose hashes are hashed: a hundredth of a core, and a hundred logs of 100,000 at once
(chosen)."""
_CHANNEL_BUCKETS = 65_536
_PEER_BUCKETS = 4096
