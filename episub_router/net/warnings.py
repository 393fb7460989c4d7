"""Log lines about what had no room, with what can be done about it."""

from __future__ import annotations

import logging
from enum import Enum

import trio

from episub_router.net.counters import Reason
from episub_router.protocol.effects import DropReason

logger = logging.getLogger(__name__)

INTERVAL = 60.0
"""Seconds between two lines of one kind; chosen."""

ADVICE: dict[Enum, str] = {
    Reason.BACKLOG_FULL: "a neighbour takes less than is sent to it, and gets announcements in "
    "place of these; publish through ResilientPubsub, which waits, or raise "
    "RouterParams.backlog_bytes",
    Reason.PEER_STALLED: "a peer took nothing for RouterParams.stall_timeout, and what waited for "
    "it is dropped; look at its load and at the link to it",
    Reason.DIALS_FULL: "too many peers are to be dialled at once; join fewer topics at a time",
    DropReason.MESSAGE_LOST: "announced messages were not cached any more by those that announced "
    "them; publish less at a time, or raise BroadcastParams.cache_ttl and cache_bytes everywhere",
    DropReason.MISSING_FULL: "more messages are missing than can be asked for; this node is "
    "behind: give it more CPU, or publish less at a time",
    DropReason.PENDING_FULL: "more messages are in validation than can be followed; make the "
    "topic's validators faster",
}
"""By reason: what it means, and what to do."""


class CapacityWarnings:
    """Logs one line for each kind of drop and minute, with how many there were."""

    def __init__(self) -> None:
        self._next: dict[Enum, float] = {}
        self._count: dict[Enum, int] = {}

    def counted(self, reason: Enum, count: int) -> None:
        """`count` more were dropped for `reason`."""
        advice = ADVICE.get(reason)
        if advice is None:
            return
        self._count[reason] = self._count.get(reason, 0) + count
        now = trio.current_time()
        if now >= self._next.get(reason, now):
            self._next[reason] = now + INTERVAL
            logger.warning(
                "%s: %d since the last line: %s", reason.value, self._count[reason], advice
            )
            self._count[reason] = 0
