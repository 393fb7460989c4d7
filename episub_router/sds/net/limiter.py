"""How often a peer may ask, how much that may take, and how much a host asks at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

import trio

from episub_router.util.params import Rate
from episub_router.util.token_buckets import TokenBuckets

MOST_ASKS = 16
"""Requests of a host under way at once (chosen)."""
PEER_RATE = Rate(50.0, 2000)
"""Requests: under 5 % of a core with py-libp2p's streams; 300 channels join at once (chosen)."""
SERVED_RATE = Rate(524_288.0, 2**29)
"""Bytes of answers, messages whose hashes are hashed, and `_LISTED` for each thing that an answer
lists: 2 % of a core, and a log of 600,000 short messages at once (chosen)."""
_LISTED = 640
"""As what a message, its id or a part of a log counts in an answer: 25 us, as so many bytes take
(measured)."""
_PEER_BUCKETS = 4096


class RequestLimiter:
    """Requests of each peer, and what answering them takes."""

    def __init__(self) -> None:
        self._asked: TokenBuckets[str] = TokenBuckets(PEER_RATE, _PEER_BUCKETS)
        self._served: TokenBuckets[str] = TokenBuckets(SERVED_RATE, _PEER_BUCKETS)

    def wait(self, peer: str, now: float) -> float:
        """0 where a request is allowed; else the seconds until it is."""
        wait = max(self._asked.wait(peer, now, 1), self._served.wait(peer, now))
        if not wait:
            self._asked.spend(peer, now)
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
