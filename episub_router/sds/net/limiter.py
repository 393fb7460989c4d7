"""How often a peer may ask, by channel and altogether, and how much a host asks at a time."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

import trio

K = TypeVar("K")


class Buckets(Generic[K]):
    """Token buckets by key, of which the `limit` that were used last are remembered."""

    def __init__(self, rate: float, burst: float, limit: int) -> None:
        self._rate = rate
        self._burst = burst
        self._limit = limit
        self._buckets: dict[K, tuple[float, float]] = {}

    def wait(self, key: K, now: float) -> float:
        """Take a token: 0, or the seconds until there is one, and then none is taken."""
        tokens, since = self._buckets.pop(key, (self._burst, now))
        tokens = min(self._burst, tokens + (now - since) * self._rate)
        taken = tokens >= 1
        self._buckets[key] = (tokens - 1 if taken else tokens, now)
        if len(self._buckets) > self._limit:
            del self._buckets[next(iter(self._buckets))]
        return 0.0 if taken else (1 - tokens) / self._rate


class RequestLimiter:
    """A peer that asks for many channels has a share for each, and a bound for all."""

    def __init__(self) -> None:
        self._by_channel: Buckets[tuple[str, str, str]] = Buckets(
            CHANNEL_RATE, CHANNEL_BURST, _CHANNEL_BUCKETS
        )
        self._by_peer: Buckets[str] = Buckets(PEER_RATE, PEER_BURST, _PEER_BUCKETS)

    def wait(self, peer: str, channel: tuple[str, str] | None, now: float) -> float:
        """0 where a request is allowed; else the seconds after which to ask again.

        `channel`: topic and id of one that there is, None for any other.
        """
        wait = self._by_peer.wait(peer, now)
        if wait or channel is None:
            return wait
        return self._by_channel.wait((peer, *channel), now)


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
"""Of so many requests that waited one is a comparison, if there is one (ours)."""
MOST_ASKS = 16
FEWEST_ASKS = 4
"""Requests of a host under way at once, at most and at least (ours)."""
SLOW_ANSWER = 2.0
"""Seconds: longer than any link's four round trips, so that the machine must be busy (ours)."""
CHANNEL_RATE = 20.0
"""Requests per second for one channel: a page of a thousand messages each is more than a member
can take in (ours)."""
CHANNEL_BURST = 60.0
PEER_RATE = 500.0
"""Requests per second for all channels: 300 channels that join at once, within a second (ours)."""
PEER_BURST = 2000.0
_CHANNEL_BUCKETS = 65_536
_PEER_BUCKETS = 4096
