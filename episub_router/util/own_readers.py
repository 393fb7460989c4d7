"""A publisher doesn't run ahead of the readers of its own subscriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import trio

from episub_router.util.bounded_channel import BoundedSender

_LOOK_INTERVAL = 0.01
"""Seconds; chosen: a channel can't be awaited for room. As often as the router looks at queues."""

_GIVEN_UP_AFTER = 1.0
"""Seconds in which a reader takes nothing until nobody waits for it any more. Chosen: one that
isn't there, as where one task publishes first and reads later, shall cost no more."""

_LONGEST = 10.0
"""Seconds that a slow reader is waited for in all, until half of its buffer is free. Chosen: at a
message in some seconds the others are not kept waiting for minutes."""


class OwnReaders:
    """Waits while a subscription's buffer is more than half full and its reader takes messages.

    What is published is handed to this node's own subscriptions at once. In a burst that fills
    their buffers in the time in which others read a few messages.
    """

    def __init__(self, channels: Mapping[str, BoundedSender[Any]]) -> None:
        """`channels` has the buffers of subscriptions, by topic."""
        self._channels = channels
        self._given_up: set[str] = set()
        """Topics whose reader took nothing, or too little; until half of the buffer is free, as one
        task may read and publish. Bound: the topics that are published to and subscribed."""

    async def wait(self, topics: Sequence[str]) -> None:
        """Return once the readers of `topics` have room, or take nothing, or too little."""
        for topic in topics:
            left, since = self._fullness(topic), trio.current_time()
            end = since + _LONGEST
            while self._is_behind(topic):
                if trio.current_time() >= min(since + _GIVEN_UP_AFTER, end):
                    self._given_up.add(topic)
                    break
                await trio.sleep(_LOOK_INTERVAL)
                if self._fullness(topic) < left:
                    left, since = self._fullness(topic), trio.current_time()

    def _fullness(self, topic: str) -> float:
        channel = self._channels.get(topic)
        return 0.0 if channel is None else channel.fullness()

    def _is_behind(self, topic: str) -> bool:
        """Whether to wait for the reader of `topic`."""
        if self._fullness(topic) <= 0.5:
            self._given_up.discard(topic)
            return False
        return topic not in self._given_up
