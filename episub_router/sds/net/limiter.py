"""How often a peer may ask, by channel and altogether, and how much a host asks at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

import trio

from episub_router.util.params import Rate
from episub_router.util.token_buckets import TokenBuckets

MOST_ASKS = 16
"""Requests of a host under way at once (chosen)."""
CHANNEL_RATE = Rate(20.0, 60)
"""Requests for one channel: a page of a thousand messages each is more than a member can take in
(chosen)."""
PEER_RATE = Rate(500.0, 2000)
"""Requests for all channels: 300 channels that join at once, within a second (chosen)."""
HASHED_RATE = Rate(250_000.0, 10_000_000)
"""Messages whose hashes are hashed: a hundredth of a core, and a hundred logs of 100,000 at once
(chosen)."""
SERVED_RATE = Rate(524_288.0, 2**28)
"""Bytes of answers: 4 % of a core, and a log of a million short messages at once (chosen)."""
_CHANNEL_BUCKETS = 65_536
_PEER_BUCKETS = 4096


class RequestLimiter:
    """A peer that asks for many channels has a share for each, and a bound for all. What it lets us
    hash and what it is served have bounds of their own."""

    def __init__(self) -> None:
        self._by_channel: TokenBuckets[tuple[str, str, str]] = TokenBuckets(
            CHANNEL_RATE, _CHANNEL_BUCKETS
        )
        self._by_peer: TokenBuckets[str] = TokenBuckets(PEER_RATE, _PEER_BUCKETS)
        self._hashed: TokenBuckets[str] = TokenBuckets(HASHED_RATE, _PEER_BUCKETS)
        self._served: TokenBuckets[str] = TokenBuckets(SERVED_RATE, _PEER_BUCKETS)

    def wait(self, peer: str, channel: tuple[str, str] | None, now: float) -> float:
        """0 where a request is allowed; else the seconds after which to ask again.

        `channel`: topic and id of one that there is, None for any other.
        """
        wait = max(
            self._by_peer.wait(peer, now, 1),
            self._hashed.wait(peer, now),
            self._served.wait(peer, now),
        )
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

    def served(self, peer: str, size: int, now: float) -> None:
        """An answer has so many bytes."""
        self._served.spend(peer, now, size)


class HostPace:
    """How many requests of a host are under way. One peer has at most half of them: so one that
    never answers holds up no request to others."""

    def __init__(self) -> None:
        self._all = trio.Semaphore(MOST_ASKS)
        self._by_peer: WeakValueDictionary[str, trio.Semaphore] = WeakValueDictionary()
        """Of peers with requests that wait or are under way."""

    @asynccontextmanager
    async def turn(self, peer: str) -> AsyncIterator[None]:
        """Wait until another request may go out to `peer`, and count it until the context ends."""
        own = self._by_peer.setdefault(peer, trio.Semaphore(MOST_ASKS // 2))
        async with own, self._all:
            yield
