"""Filters of received ids and long histories, for other implementations (S03, S07, S10)."""

from __future__ import annotations

import hashlib
from collections import deque
from dataclasses import replace
from itertools import islice

from episub_router.protocol.types import Time
from episub_router.sds.interop.bloom import SATURATED, FilterCodec
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.effects import DiscardReason, Effect
from episub_router.sds.protocol.log import Log
from episub_router.sds.protocol.message import HistoryEntry, Message, MessageId, SenderId
from episub_router.sds.protocol.outgoing import TRACKED, Outgoing
from episub_router.sds.protocol.participant import Dialect
from episub_router.util.bounded import put_last

_PARTS = 4
"""Of a filter; of a full one the oldest goes (chosen)."""
_PROMOTE_BELOW = 1e-6
"""A filter with a lower false-positive rate is an acknowledgement (chosen)."""
_POSSIBLY = 60.0
"""Seconds after which a message that is possibly there is resent: S12 wants it longer (chosen)."""


class InteropDialect(Dialect):
    """Chooses by order of reception: a far-future clock makes no message more recent. A filter is
    made of parts, so that the oldest ids can leave it."""

    def __init__(self, filters: FilterCodec, history: int) -> None:
        self.filters = filters
        self._history = history
        capacity = filters.geometry.capacity
        self._parts: deque[bytearray] = deque(maxlen=min(_PARTS, capacity))
        self._most = capacity // min(_PARTS, capacity)
        """Ids in a part."""
        self._count = self._most
        """Ids in the newest part."""
        self._possibly: dict[tuple[MessageId, SenderId], None] = {}

    def name(self, sender: SenderId, channel_id: str, lamport: int, content: bytes) -> MessageId:
        """sha256 in hex over all four, each with its length."""
        digest = hashlib.sha256()
        for field in (channel_id.encode(), sender.encode(), lamport.to_bytes(8, "big"), content):
            digest.update(len(field).to_bytes(8, "big"))
            digest.update(field)
        return digest.hexdigest()

    def fill(self, message: Message, log: Log) -> Message:
        """Recent messages besides the heads, and the filter."""
        chosen = dict.fromkeys(message.history_ids)
        for recent in log.recent():
            if len(chosen) >= self._history:
                break
            chosen[recent] = None
        entries = [(i, log.get(i)) for i in chosen]
        return replace(
            message,
            causal_history=tuple(
                HistoryEntry(i, None, entry.sender_id if entry else None) for i, entry in entries
            ),
            bloom_filter=self.filters.dump(*self._parts),
        )

    def received(self, message_id: MessageId) -> None:
        if self._count == self._most:
            self._parts.append(self.filters.new())
            self._count = 0
        self.filters.insert(self._parts[-1], self.filters.base_hash(message_id))
        self._count += 1

    def restore(self, log: Log) -> None:
        for message_id in reversed([*islice(log.recent(), self.filters.geometry.capacity)]):
            self.received(message_id)

    def review(self, message: Message, outgoing: Outgoing, now: Time) -> list[Effect]:
        """Look for our unacknowledged messages in the sender's filter."""
        sender = message.sender_id
        if not message.bloom_filter or not len(outgoing):
            return []
        received = self.filters.load(message.bloom_filter)
        if received is None:
            return [fx.Discarded(sender, DiscardReason.FILTER_UNUSABLE)]
        hits = [
            o for o in outgoing.buffered if received.holds(self.filters.base_hash(o.message_id))
        ]
        if not hits:
            return []
        probability = received.false_positive_rate()
        if probability >= SATURATED:
            return [fx.Discarded(sender, DiscardReason.FILTER_SATURATED)]
        effects: list[Effect] = []
        for own in hits:
            # Filters of members that have the same messages have the same false positives, so
            # a second filter says nothing new: only a filter that is rarely wrong counts.
            pair = (own.message_id, sender)
            if probability <= _PROMOTE_BELOW:
                effects += outgoing.review(sender, own.clock, 0, message.since)
            elif pair not in self._possibly:
                put_last(self._possibly, pair, None, 4 * TRACKED)
                effects.append(fx.PossiblyAcknowledged(*pair, probability))
                outgoing.defer(own.message_id, now + _POSSIBLY * 2**own.attempts)
        return effects
