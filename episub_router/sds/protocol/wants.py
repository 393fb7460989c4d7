"""What we know to be missing: asked for directly, then from the group, then given up (S11)."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain

from episub_router.protocol.types import Time
from episub_router.sds.protocol.effects import AskIds, Effect, PeerRef
from episub_router.sds.protocol.entry import Key
from episub_router.sds.protocol.group import ROUNDING, Group
from episub_router.sds.protocol.message import HistoryEntry, MessageId, SenderId
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.peers import PULL_RETRY, StreamPeers
from episub_router.sds.protocol.responses import request_delay
from episub_router.sds.protocol.shares import Shares
from episub_router.util.timers import TimerMap

PULL_DELAY = 0.5
"""Seconds: what is only late arrives first (chosen)."""
PULL_BATCH = 100
"""Ids of a request, as in Waku's store."""
_GONE_AFTER = 8
"""Peers: where so many have purged some messages and lack one, it is lost (chosen)."""
_REQUESTS = 3
"""Requests of the group in a message, as in the specification of SDS-R."""
_DENIED = 2
"""Peers without a message after which it is not asked for by id any more (chosen): of 200 invented
ids in 7.2 kB a member has 1.3 times their bytes to bear, where it had 59 times in ten minutes."""
_MAX_SOURCES = 3
_REST = 1.0
_LONGEST_REST = 60.0
"""Seconds after which it is looked again whether pages bring a missing message, and for which a
message that they may bring is not asked for by id (chosen)."""
_ON_ITS_WAY = 10.0
"""Seconds for which a new message may be on its way: the group is asked for it then
(chosen). Else one liar among a few peers would say that it purged what none of them has yet."""
_AGAIN = 0.25
"""Share of the time that a message has been missing, after which the group is asked again (chosen).
So it is asked some twenty times in ten minutes, by all members together. With half, of ten members
at 50 % loss the slowest delivery in a hundred took 42 s in place of 26."""


@dataclass(slots=True)
class Want:
    """A missing message of `author`, where it is known. `sources` should have it.

    Its clock is at most `clock`, that of what referred to it. `lacking` are peers that don't have
    it, each with the place up to which it has purged messages. `before`: those that may have had it
    have purged nothing that our log would hold.
    """

    author: SenderId | None
    since: Time
    clock: int
    sources: list[PeerRef] = field(default_factory=list)
    pulls: int = 0
    last_asked: PeerRef | None = None
    lacking: dict[PeerRef, Key | None] = field(default_factory=dict)
    before: bool = False


@dataclass(eq=False)
class Wants:
    """Every missing id has three deadlines: the next pull, the next SDS-R request, giving up."""

    me: SenderId
    params: SdsParams
    rng: random.Random
    peers: StreamPeers
    group: Group

    def __post_init__(self) -> None:
        self._wants: dict[MessageId, Want] = {}
        self._held: Shares[MessageId, SenderId] = Shares(self.params.wanted_limit)
        self._pulls: TimerMap[MessageId] = TimerMap()
        self._repairs: TimerMap[MessageId] = TimerMap()
        self._ends: TimerMap[MessageId] = TimerMap()
        self._overdue: dict[MessageId, None] = {}

    def __len__(self) -> int:
        return len(self._wants)

    def __contains__(self, message_id: MessageId) -> bool:
        return message_id in self._wants

    def next(self) -> Time:
        given_up = self.group.when(self._ends.deadline)
        return min(self._pulls.deadline, self._repairs.deadline, given_up)

    @property
    def overdue(self) -> bool:
        """Whether a repair request waits for a message to travel with."""
        return bool(self._overdue)

    @property
    def left(self) -> bool:
        """Whether some are not asked for by id, but left to comparisons."""
        return len(self._pulls) < len(self._wants)

    def add(
        self,
        message_id: MessageId,
        author: SenderId | None,
        blamed: SenderId,
        source: PeerRef | None,
        now: Time,
        *,
        clock: int,
        pull_after: float,
    ) -> bool:
        """Start looking for a message, or note one more source. False where there is no room.

        `blamed` refers to it. `clock`: the message's own is at most this.
        """
        want = self._wants.get(message_id)
        if want is None:
            if not self._held.make_room(blamed, self.found):
                return False
            want = self._wants[message_id] = Want(author, now, clock)
            self._held.add(message_id, blamed)
            self._pulls.set(message_id, now + pull_after)
            if self.params.repair:
                low, high = self.params.repair_min * 1000, self.params.repair_max * 1000
                delay = request_delay(self.me, message_id, int(low), int(high)) / 1000
                self._repairs.set(message_id, now + delay)
            elapsed = self.group.elapsed(now)
            self._ends.set(message_id, elapsed + self.params.lost_after)
        else:
            want.author = want.author or author
        if source is not None and source not in want.sources and source not in want.lacking:
            want.sources.insert(0, source)
            del want.sources[_MAX_SOURCES:]
            if message_id not in self._pulls:
                self._pulls.set(message_id, now + pull_after)
        return True

    def found(self, message_id: MessageId) -> Want | None:
        """The message arrived, or is given up."""
        want = self._wants.pop(message_id, None)
        if want is not None:
            self._pulls.cancel(message_id)
            self._repairs.cancel(message_id)
            self._ends.cancel(message_id)
            self._overdue.pop(message_id, None)
            self._held.remove(message_id)
        return want

    def not_had(
        self,
        peer: PeerRef,
        ids: Iterable[MessageId],
        now: Time,
        *,
        wall: int,
        gone: Key | None,
        since: int,
    ) -> None:
        """`peer` was asked for these and doesn't have them; another is asked at once.

        `gone`: up to there it has purged messages; our log begins after the clock `since`. Where
        all peers lack one and any has purged some, or `_GONE_AFTER` lack it and all of those have,
        there is nothing to wait for. Except for what is as new, at our time of day `wall` (ms),
        that it may be on its way to all of them. What `_DENIED` peers lack that have purged
        nothing may be invented: it is left to comparisons until somebody else names it.
        """
        share = self._share()
        for message_id in ids:
            want = self._wants.get(message_id)
            if want is None:
                continue
            if peer in want.sources:
                want.sources.remove(peer)
            want.lacking[peer] = gone
            places = [place for place in want.lacking.values() if place is not None]
            denied = len(want.lacking) - len(places)
            asked_all = self.peers.all_in(want.lacking)
            if len(want.lacking) < _GONE_AFTER and not asked_all and denied < _DENIED:
                self._pulls.set(message_id, now)
                continue
            purged = bool(places) and (asked_all or not denied)
            if not purged:
                self._pulls.cancel(message_id)
                continue
            if want.clock < wall - 1000 * _ON_ITS_WAY or now - want.since > _ON_ITS_WAY:
                want.before = since > 0 and max(places) <= (since + 1, "")
                self._ends.set(message_id, self.group.elapsed(now))
            want.lacking.clear()
            self._pulls.set(message_id, self._pull_again(want, now, share))

    def failed(self, ids: Iterable[MessageId], now: Time) -> None:
        """A peer was asked for these and gave no usable answer."""
        share = self._share()
        for message_id in ids:
            want = self._wants.get(message_id)
            if want is not None:
                if want.last_asked in want.sources:
                    want.sources.remove(want.last_asked)
                self._pulls.set(message_id, self._pull_again(want, now, share))

    def asked_by_other(self, message_id: MessageId, now: Time) -> None:
        """Another member asks the group for it: wait for that answer before asking again."""
        want = self._wants.get(message_id)
        if want is not None:
            self._overdue.pop(message_id, None)
            self._repairs.set(message_id, now + self._rearm(want, now))

    def peer_appeared(self, now: Time) -> None:
        """There is someone new to ask: whatever waits for a retry is worth trying again."""
        for message_id, want in self._wants.items():
            if want.pulls and want.last_asked is None:
                self._pulls.set(message_id, now + PULL_DELAY)

    def take_requests(self, now: Time) -> tuple[HistoryEntry, ...]:
        """The most overdue requests, for the message that is being made (SDS-R)."""
        ids = sorted(self._overdue, key=lambda i: (self._wants[i].since, i))
        taken = []
        for message_id in ids[:_REQUESTS]:
            want = self._wants[message_id]
            del self._overdue[message_id]
            self._repairs.set(message_id, now + self._rearm(want, now))
            taken.append(HistoryEntry(message_id, None, want.author))
        return tuple(taken)

    def poll(self, now: Time, comes: Callable[[int], bool]) -> list[Effect]:
        """Ask peers for what is due, grouped by peer. `comes`: whether messages up to a clock come
        in pages; they are not asked for one by one."""
        for message_id in self._repairs.pop_due(now):
            if self._rests(message_id, now, comes):
                self._repairs.set(message_id, now + _REST)
            else:
                self._overdue[message_id] = None
        by_peer: dict[PeerRef, list[MessageId]] = {}
        due = self._pulls.pop_due(now)
        ready = self.peers.ready(now) if due else []
        order = dict.fromkeys(self.rng.sample(ready, len(ready)))
        share = self._share() if due else 1.0
        for message_id in due:
            if self._rests(message_id, now, comes):
                self._pulls.set(message_id, now + _REST)
                continue
            want = self._wants[message_id]
            sources = (p for p in want.sources if p in order)
            able = (p for p in chain(sources, order) if p not in want.lacking)
            peer = next(able, None)
            if peer is not None and peer == want.last_asked:
                peer = next((p for p in able if p != peer), peer)
            want.pulls += 1
            want.last_asked = peer
            if peer is None:
                if self.peers.all_in(want.lacking):
                    want.lacking.clear()
                self._pulls.set(message_id, self._pull_again(want, now, share))
            else:
                self._pulls.set(message_id, now + self.params.pull_timeout)
                by_peer.setdefault(peer, []).append(message_id)
        batch = PULL_BATCH
        return [
            AskIds(peer, tuple(ids[i : i + batch]))
            for peer, ids in by_peer.items()
            for i in range(0, len(ids), batch)
        ]

    def ended(self, now: Time) -> list[MessageId]:
        """Ids whose time is over. They stay wanted until `found`."""
        return self._ends.pop_due(self.group.elapsed(now) + ROUNDING)

    def _rests(self, message_id: MessageId, now: Time, comes: Callable[[int], bool]) -> bool:
        want = self._wants[message_id]
        return now - want.since < _LONGEST_REST and comes(want.clock)

    def _share(self) -> float:
        return self.rng.uniform(0.5, 1.0)

    def _pull_again(self, want: Want, now: Time, share: float) -> Time:
        """When peers are asked again: ever more rarely, and for many ids at one time, as those of
        one step get the same `share` of the pause."""
        longest = max(self.params.pull_timeout, (now - want.since) * _AGAIN)
        longest = min(longest, self.params.heads_interval)
        pause: float = min(PULL_RETRY * 2 ** min(want.pulls, 10), longest)
        return math.ceil((now + pause * share) / PULL_RETRY) * PULL_RETRY

    def _rearm(self, want: Want, now: Time) -> float:
        """Seconds until the group is asked again: ever more, at most as between comparisons."""
        base = max(self.params.repair_min, (now - want.since) * _AGAIN)
        return min(base, self.params.heads_interval) * self.rng.uniform(1.0, 1.5)
