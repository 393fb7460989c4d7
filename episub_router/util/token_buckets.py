"""Token buckets, one for each key."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from episub_router.util.bounded import put_last
from episub_router.util.params import Rate

K = TypeVar("K", bound=Hashable)

_DIGITS = 6
"""Of tokens, as sums of times may be off."""


class TokenBuckets(Generic[K]):
    """A bucket of `rate` for each key, full at first.

    The time at which a bucket is full again is its whole state (the GCRA of ATM Forum TM 4.0). At
    most `most` buckets are kept: the key that was used longest ago starts with a full one again.
    """

    __slots__ = ("_full_at", "most", "rate")

    def __init__(self, rate: Rate, most: int) -> None:
        self.rate = rate
        self.most = most
        self._full_at: dict[K, float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def left(self, key: K, now: float) -> float:
        """The tokens of `key` at `now`, in seconds; below 0 if it is in debt."""
        missing = (self._full_at.get(key, now) - now) * self.rate.per_second
        return round(self.rate.burst - max(0.0, missing), _DIGITS)

    def has(self, key: K, now: float, tokens: float = 1) -> bool:
        """Whether `tokens` are left for `key`."""
        return self.left(key, now) >= tokens

    def wait(self, key: K, now: float, tokens: float = 0) -> float:
        """Seconds until `tokens` are left for `key`; by default, until it is out of debt."""
        return max(0.0, (tokens - self.left(key, now)) / self.rate.per_second)

    def take(self, key: K, now: float, tokens: float = 1) -> bool:
        """Take `tokens` of `key`; False, with nothing taken, where fewer are left."""
        allowed = self.has(key, now, tokens)
        if allowed:
            self.spend(key, now, tokens)
        return allowed

    def spend(self, key: K, now: float, tokens: float = 1) -> None:
        """Take `tokens` of `key` though there may be fewer: a debt that time pays back. Fewer than
        none give tokens back."""
        full_at = max(self._full_at.get(key, now), now) + tokens / self.rate.per_second
        put_last(self._full_at, key, full_at, self.most)

    def forget_full(self, now: float) -> None:
        """Drop the buckets that are full at `now`, of those used longest ago."""
        full_at = self._full_at
        while full_at:
            oldest = next(iter(full_at))
            if full_at[oldest] > now:
                return
            del full_at[oldest]

    def clear(self) -> None:
        self._full_at.clear()
