"""How often a peer may ask, by channel and altogether, and how much a host asks at a time."""

from __future__ import annotations

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


class HostPace:
    """How many requests of a host are under way: fewer, the longer answers take.

    Where a thousand channels join at once on a busy machine, each request of many would take
    longer than py-libp2p gives a stream to open (10 s), and none would end.
    """

    def __init__(self) -> None:
        self.limiter = trio.CapacityLimiter(MOST_ASKS)
        self._size = float(MOST_ASKS)

    def took(self, seconds: float) -> None:
        """A request had its answer, or none, after so long."""
        if seconds > SLOW_ANSWER:
            self._size = max(FEWEST_ASKS, self._size * 0.75)
        else:
            self._size = min(MOST_ASKS, self._size + 1 / self._size)
        self.limiter.total_tokens = int(self._size)


MOST_ASKS = 16
FEWEST_ASKS = 4
"""Requests of a host under way at once, at most and at least: so a peer that never answers holds
up no other (ours)."""
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
