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
SERVED_RATE = Rate(524_288.0, 2**29)
"""Bytes of answers, messages whose hashes are hashed, and `_LISTED` for each thing that an answer
lists: 2 % of a core, and a log of 600,000 short messages at once (chosen)."""
_LISTED = 640
"""As what a message, its id or a part of a log counts in an answer: 25 us, as so many bytes take
(measured)."""
_CHANNEL_BUCKETS = 65_536
_PEER_BUCKETS = 4096


class RequestLimiter:
    """A peer that asks for many channels has a share for each, and a bound for all; and one for
    what answering takes."""

    def __init__(self) -> None:
        self._by_channel: TokenBuckets[tuple[str, str, str]] = TokenBuckets(
            CHANNEL_RATE, _CHANNEL_BUCKETS
        )
        self._by_peer: TokenBuckets[str] = TokenBuckets(PEER_RATE, _PEER_BUCKETS)
        self._served: TokenBuckets[str] = TokenBuckets(SERVED_RATE, _PEER_BUCKETS)

    def wait(self, peer: str, channel: tuple[str, str] | None, now: float) -> float:
        """0 where a request is allowed; else the seconds after which to ask again.

        `channel`: topic and id of one that there is, None for any other.
        """
        wait = max(self._by_peer.wait(peer, now, 1), self._served.wait(peer, now))
        if not wait and channel is not None:
            wait = self._by_channel.wait((peer, *channel), now, 1)
        if not wait:
            self._by_peer.spend(peer, now)
            if channel is not None:
                self._by_channel.spend((peer, *channel), now)
        return wait

    def served(self, peer: str, size: int, listed: int, now: float) -> None:
        """An answer of so many bytes, or messages that were hashed for one, lists so many
        things."""
        self._served.spend(peer, now, size + _LISTED * listed)


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
