"""A store for participants that start from nothing each time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.causal.tombstones import TOMBSTONES
from episub_router.sds.protocol.entry import Key
from episub_router.sds.protocol.group import MEMBERS
from episub_router.sds.protocol.message import MessageId, SenderId
from episub_router.sds.store.base import (
    Following,
    Purged,
    Retention,
    Saved,
    Store,
    StoredDelivery,
    StoredMessage,
    StoreError,
    first_that_fit,
)
from episub_router.util.bounded import put_last
from episub_router.util.front_list import FrontList


@dataclass(slots=True)
class _Channel:
    owner: str
    clock: int = 0
    position: int = 0
    consumed: int = 0
    floor: Key | None = None
    gone: Key | None = None
    keys: FrontList[Key] = field(default_factory=FrontList)
    rows: dict[MessageId, fx.Logged] = field(default_factory=dict)
    received: dict[MessageId, float] = field(default_factory=dict)
    """When each row came. Without `retention`, nobody asks."""
    arrivals: dict[MessageId, int] = field(default_factory=dict)
    """Each row's number, in the order in which they came."""
    arrived: int = 0
    positions: FrontList[tuple[int, MessageId]] = field(default_factory=FrontList)
    incoming: dict[MessageId, fx.Buffered] = field(default_factory=dict)
    outgoing: dict[MessageId, None] = field(default_factory=dict)
    tombstones: dict[MessageId, None] = field(default_factory=dict)
    departed: dict[SenderId, int] = field(default_factory=dict)
    acks: dict[SenderId, tuple[int, int]] = field(default_factory=dict)
    unread: deque[tuple[int, fx.Logged]] = field(default_factory=deque)
    """Deliveries that left the log before the application had them."""
    since: int | None = None
    offered: int = 0
    offers: int = 0


class MemoryStore(Store):
    """As long as the process lives. Bounded by the participant's log limit, and `retention`."""

    def __init__(self, retention: Retention | None = None) -> None:
        self.retention = retention
        self._channels: dict[str, _Channel] = {}

    def load(self, channel_id: str, owner: str, limit: int) -> Saved | None:
        channel = self._channels.get(channel_id)
        if channel is None:
            self._channels[channel_id] = _Channel(owner)
            return None
        if channel.owner != owner:
            raise StoreError(
                f"channel {channel_id!r} belongs to {channel.owner!r}, not to {owner!r}"
            )
        keys = channel.keys.last(limit + 1)
        floor = keys.pop(0) if len(keys) > limit else channel.floor
        return Saved(
            clock=channel.clock,
            position=channel.position,
            floor=floor,
            log=[_stored(channel.rows[i]) for _, i in keys],
            incoming=[(b.raw, b.origin) for b in channel.incoming.values()],
            outgoing={i: channel.rows[i].raw for i in channel.outgoing},
            tombstones=list(channel.tombstones),
            departed=dict(channel.departed),
            acks=dict(channel.acks),
            since=channel.since,
        )

    def channels(self) -> list[str]:
        return list(self._channels)

    def commit(self, channel_id: str, changes: Sequence[fx.Change]) -> None:
        channel = self._channels[channel_id]
        kept = self.retention is not None
        for change in changes:
            if kept and isinstance(change, fx.Logged):
                channel.received.setdefault(change.message_id, time.time())
            _apply(channel, change)

    def get(
        self, channel_id: str, ids: Iterable[MessageId], size: int | None = None
    ) -> list[StoredMessage]:
        rows = self._channels[channel_id].rows
        found = [_stored(rows[i]) for i in dict.fromkeys(ids) if i in rows]
        return found if size is None else first_that_fit(found, len(found), size)[0]

    def lacked(self, channel_id: str, ids: Iterable[MessageId]) -> list[MessageId]:
        rows = self._channels[channel_id].rows
        return [i for i in ids if i not in rows]

    def page(
        self,
        channel_id: str,
        after: Key | None,
        until: Key | None,
        items: int,
        size: int,
        *,
        newest_first: bool = False,
        ids_only: bool = False,
    ) -> tuple[list[StoredMessage], bool]:
        channel = self._channels[channel_id]
        if newest_first:
            keys = channel.keys.between(after, until, items + 1, last=True)[::-1]
        else:
            keys = channel.keys.between(after, until, items + 1)
        if ids_only:
            return [StoredMessage(key, b"", b"") for key in keys[:items]], len(keys) > items
        return first_that_fit((_stored(channel.rows[i]) for _, i in keys), items, size)

    def following(
        self, channel_id: str, place: Key | None, arrival: int, limit: int
    ) -> Following | None:
        channel = self._channels[channel_id]
        late: list[tuple[int, MessageId]] = []
        for message_id, number in reversed(channel.arrivals.items()):
            if number <= arrival or place is None:
                break
            if (channel.rows[message_id].entry.lamport, message_id) <= place:
                late.append((number, message_id))
        if late:
            number, message_id = late[-1]
            return Following(_stored(channel.rows[message_id]), True, number)
        following = channel.keys.between(place, (limit + 1, ""), 1)
        if not following:
            return None
        return Following(_stored(channel.rows[following[0][1]]), False, channel.arrived)

    def count(self, channel_id: str) -> int:
        return len(self._channels[channel_id].rows)

    def gone(self, channel_id: str) -> Key | None:
        return self._channels[channel_id].gone

    def deliveries(self, channel_id: str, after: int, limit: int) -> list[StoredDelivery]:
        channel = self._channels[channel_id]
        rows = [row for position, row in channel.unread if position > after][:limit]
        read = channel.positions.between((after + 1, ""), None, limit - len(rows))
        rows += [channel.rows[i] for _, i in read]
        return [StoredDelivery(r.position, r.raw, r.missing, r.entry.sender_id) for r in rows]

    def consumed(self, channel_id: str) -> int:
        return self._channels[channel_id].consumed

    def set_consumed(self, channel_id: str, position: int) -> None:
        channel = self._channels[channel_id]
        channel.consumed = position
        while channel.unread and channel.unread[0][0] <= position:
            channel.unread.popleft()

    def offer(self, channel_id: str, position: int) -> int:
        channel = self._channels[channel_id]
        channel.offers = channel.offers + 1 if channel.offered == position else 1
        channel.offered = position
        return channel.offers

    def trim_unread(self, channel_id: str, limit: int) -> int:
        unread = self._channels[channel_id].unread
        gone = max(0, len(unread) - limit)
        for _ in range(gone):
            unread.popleft()
        return gone

    def purge(self, unread_limit: int | None = None) -> dict[str, Purged]:
        kept = self.retention
        if kept is None:
            return {}
        oldest = sorted(
            (at, name, message_id)
            for name, channel in self._channels.items()
            for message_id, at in channel.received.items()
        )
        count = len(oldest)
        size = sum(len(r.raw) for c in self._channels.values() for r in c.rows.values())
        since = self._too_old_before(kept)
        result: dict[str, Purged] = {}
        for at, name, message_id in oldest:
            over = kept.max_messages is not None and count > kept.max_messages
            over = over or (kept.max_bytes is not None and size > kept.max_bytes)
            if at >= since and not over:
                break
            channel = self._channels[name]
            row = channel.rows[message_id]
            count, size = count - 1, size - len(row.raw)
            unread = unread_limit is not None and row.position > channel.consumed
            if unread and row.position > channel.position - (unread_limit or 0):
                continue
            key = _remove(channel, message_id)
            _depart(channel, row.entry.sender_id, row.entry.lamport)
            result.setdefault(name, Purged([], key)).add(key, unread=unread)
            channel.floor = max(channel.floor or key, key)
            channel.gone = max(channel.gone or key, key)
        return result

    def check_room(self, size: int) -> None:
        """There always is."""

    def close(self) -> None:
        self._channels.clear()


def _apply(channel: _Channel, change: fx.Change) -> None:
    match change:
        case fx.Logged():
            message_id = change.message_id
            if message_id not in channel.rows:
                channel.arrived += 1
                channel.arrivals[message_id] = channel.arrived
            channel.rows[message_id] = change
            channel.keys.add((change.entry.lamport, message_id))
            channel.incoming.pop(message_id, None)
            channel.tombstones.pop(message_id, None)
            if change.outgoing:
                channel.outgoing[message_id] = None
            if change.position:
                channel.position = change.position
                channel.positions.add((change.position, message_id))
        case fx.Buffered(message_id=message_id):
            channel.incoming[message_id] = change
        case fx.Settled(message_id=message_id):
            channel.outgoing.pop(message_id, None)
        case fx.ClockSet(value=value):
            channel.clock = max(channel.clock, value)
        case fx.Tombstone(message_id=message_id):
            put_last(channel.tombstones, message_id, None, TOMBSTONES)
        case fx.Evicted():
            _evict(channel, change)
        case fx.Unbuffered(message_id=message_id):
            channel.incoming.pop(message_id, None)
        case fx.JoinedAt(since=since):
            channel.since = since
            if since:
                channel.floor = channel.gone = (since + 1, "")
        case fx.AckStored(by=by, after=after, until=until):
            put_last(channel.acks, by, (after, until), MEMBERS)


def _evict(channel: _Channel, change: fx.Evicted) -> None:
    row = channel.rows[change.message_id]
    key = _remove(channel, change.message_id)
    channel.gone = max(channel.gone or key, key)
    if row.position > channel.consumed:
        channel.unread.append((row.position, row))
    channel.floor = change.floor
    if change.sender_id:
        _depart(channel, change.sender_id, change.lamport)


def _remove(channel: _Channel, message_id: MessageId) -> Key:
    """Remove a row; its place."""
    row = channel.rows.pop(message_id)
    key = (row.entry.lamport, message_id)
    channel.keys.remove(key)
    channel.received.pop(message_id, None)
    channel.arrivals.pop(message_id)
    channel.outgoing.pop(message_id, None)
    if row.position:
        channel.positions.remove((row.position, message_id))
    return key


def _depart(channel: _Channel, sender: SenderId, clock: int) -> None:
    channel.departed[sender] = max(clock, channel.departed.get(sender, 0))


def _stored(row: fx.Logged) -> StoredMessage:
    return StoredMessage(
        (row.entry.lamport, row.message_id), row.raw, row.origin, row.entry.sender_id
    )
