"""Answering the group's repair requests after a back-off, unless someone else does (SDS-R).

The hashes say when to ask, when to answer, and whether to, byte-compatible with js; their times are
offsets in milliseconds.
"""

from __future__ import annotations

import hashlib

from episub_router.protocol.types import Time
from episub_router.sds.protocol.effects import Discarded, DiscardReason, Effect, Rebroadcast
from episub_router.sds.protocol.group import MEMBERS
from episub_router.sds.protocol.message import MessageId, SenderId
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.shares import Shares
from episub_router.util.bounded import put_last
from episub_router.util.params import Rate
from episub_router.util.timers import TimerMap
from episub_router.util.token_buckets import TokenBuckets

_LIMIT = 1000
"""Answers pending, as in js."""
_GROUP = 128
"""Members of a response group, as in the specification of SDS-R."""
_BYTES = Rate(1024, 131_072)
"""What is repaired for one member that asks: bytes per second, and at once (chosen). All members
hear all requests and answers, and count alike: so it holds for the group."""


class Responses:
    """At most `_LIMIT` answers pending, in fair shares of those that ask."""

    def __init__(self, me: SenderId, params: SdsParams) -> None:
        self._me = me
        self._params = params
        self._timers: TimerMap[MessageId] = TimerMap()
        self._held: Shares[MessageId, SenderId] = Shares(_LIMIT)
        self._asked: dict[MessageId, Time] = {}
        """When each was last asked for."""
        self._allowed: TokenBuckets[SenderId] = TokenBuckets(_BYTES, MEMBERS)

    def __len__(self) -> int:
        return len(self._timers)

    def next(self) -> Time:
        return self._timers.deadline

    def requested(
        self,
        message_id: MessageId,
        author: SenderId,
        size: int,
        by: SenderId,
        members: int,
        now: Time,
    ) -> list[Effect]:
        """`by` asks for a message of `size` bytes that we have."""
        asked_at = self._asked.get(message_id)
        # Shorter than anyone waits before asking again, so that a repeated request means that
        # the answer was lost.
        if asked_at is not None and now - asked_at < self._params.repair_min / 2:
            return []
        if not self._allowed.take(by, now, min(size, _BYTES.burst)):
            return [Discarded(by, DiscardReason.REPAIR_FULL)]
        put_last(self._asked, message_id, now, _LIMIT)
        # What is asked for again, any member answers: groups are as many as members, of which
        # some may have been made up.
        groups = members // _GROUP + 1 if asked_at is None else 1
        if message_id in self._timers or not in_response_group(
            self._me, author, message_id, groups
        ):
            return []
        if not self._held.make_room(by, self._cancel):
            return [Discarded(by, DiscardReason.REPAIR_FULL)]
        high = int(self._params.repair_max * 1000)
        delay = response_delay(self._me, author, message_id, high) / 1000
        self._timers.set(message_id, now + delay)
        self._held.add(message_id, by)
        return []

    def seen(self, message_id: MessageId) -> None:
        """Someone published a copy: ours is not needed."""
        if message_id in self._timers:
            self._cancel(message_id)

    def poll(self, now: Time) -> list[Effect]:
        effects: list[Effect] = []
        for message_id in self._timers.pop_due(now):
            self._held.remove(message_id)
            effects.append(Rebroadcast(message_id))
        return effects

    def _cancel(self, message_id: MessageId) -> None:
        self._timers.cancel(message_id)
        self._held.remove(message_id)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def request_delay(me: SenderId, message_id: MessageId, low: int, high: int) -> int:
    """T_req: how long to wait before asking the group for a missing message."""
    return _hash(me + message_id) % (high - low) + low


def response_delay(me: SenderId, author: SenderId, message_id: MessageId, high: int) -> int:
    """T_resp: how long to wait before answering; its author answers at once."""
    if me == author:
        return 0
    return ((_hash(me) ^ _hash(author)) * _hash(message_id)) % high


def in_response_group(me: SenderId, author: SenderId, message_id: MessageId, groups: int) -> bool:
    """Whether we are among the members that answer for this message."""
    if me == author:
        return True
    return _hash(me + message_id) % groups == _hash(author + message_id) % groups


def confirming_rank(me: SenderId, message_id: MessageId, members: int) -> float:
    """How many of the others, on average, confirm this message before we do (chosen)."""
    return _hash(me + message_id) / 2**64 * max(1, members - 1)
