"""Comparing logs with a peer, and fetching what it has and we don't.

On joining, and now and then, we compare ranges (see `ranges`) until we know what we lack. Where
most of a range is new to us we fetch its messages in pages, else by id. So a newcomer or a healed
partition needs no traffic to catch up, and nothing that equals is sent.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from episub_router.protocol.types import NEVER, Time
from episub_router.sds.protocol.effects import (
    Ask,
    AskCompare,
    AskRange,
    AskSnapshot,
    Effect,
    PeerRef,
)
from episub_router.sds.protocol.entry import Key, RangeHash
from episub_router.sds.protocol.joining import JOIN_PEERS, Joining
from episub_router.sds.protocol.log import Log
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.peers import StreamPeers
from episub_router.sds.protocol.ranges import (
    LEAF,
    MAX_RANGES,
    SALT_SIZE,
    LogComparison,
)
from episub_router.sds.protocol.wants import Wants

_ROUNDS = 64
"""Comparisons of one job: more than any log needs."""
_JOIN_DELAY = 1.0
"""Seconds over which the questions after a peer appears are spread, and twice of which a newcomer
waits for the answers of others (chosen)."""
_TURN = 30.0
"""Seconds after which a peer is left for another: it may be slow, or bring its own (chosen)."""
_PATIENCE = 6
"""How much longer than a request may take a job waits for it: it may have to queue (chosen)."""
_IDLE_FACTOR = 8
"""How much rarer comparisons get while logs turn out equal."""
_SHORTEST, _LONGEST = 0.75, 1.25
"""Shares of the interval after which the next comparison comes (chosen)."""
_STEPS = 30
"""Times in an interval at which comparisons are due: those of a host's channels with one peer go
together then (chosen)."""
_FIRST_PAGE = 500
_LEAST_PAGE = 10
"""Messages of a page: as many as the link brings in a part of `pull_timeout` (chosen)."""
_IDS_PAGE = 1000
"""Ids of a page, of which each is then missing: there is room for twice as many of one peer."""


_FIRST: Key = (-1, "")


@dataclass(slots=True)
class _Job:
    """One comparison under way, with the ranges that are still to compare, and those to fetch,
    oldest last, in pages whose length is decided when they are asked for. `newest` are places of
    the peer's newest messages, where it is asked for those first."""

    peer: PeerRef
    deadline: Time
    turn_ends: Time
    compare: list[RangeHash] = field(default_factory=list)
    fetch: list[AskRange] = field(default_factory=list)
    asked: Ask | None = None
    asked_at: Time = 0.0
    came_at: Time | None = None
    rounds: int = 0
    found: bool = False
    newest: list[Key] = field(default_factory=list)


@dataclass(eq=False)
class Catchup:
    """At most one comparison at a time, so that two peers don't send us the same.

    Each peer has its turn, and another goes on where it was, since what has come is no difference
    any more.
    """

    params: SdsParams
    rng: random.Random
    peers: StreamPeers
    log: Log
    joining: Joining
    wants: Wants
    _queue: dict[PeerRef, None] = field(default_factory=dict)
    _queue_at: Time = NEVER
    _periodic_at: Time = NEVER
    _pause: float = 1.0
    _page: int = _FIRST_PAGE
    _seen: int = 0
    _equal: dict[PeerRef, tuple[Time, int]] = field(default_factory=dict)
    """When a peer that asked had all that we had, and no more; with what we had by then."""
    _job: _Job | None = None
    _decide_at: Time = NEVER
    """When it is decided where our log begins, whoever has answered by then."""

    @property
    def asks_somebody(self) -> bool:
        """Whether a peer is being asked, or is about to be."""
        return self._job is not None or bool(self._queue) or self._decide_at != NEVER

    def awaits(self, ask: Ask) -> bool:
        """Whether this is what is being asked."""
        return self._job is not None and self._job.asked is ask

    def brings(self, clock: int, now: Time) -> bool:
        """Whether pages that are on the way, or will be asked for, may bring all up to a clock.

        Not while one takes longer than pages are made for.
        """
        job = self._job
        if job is None:
            return False
        late = now - job.asked_at > self.params.pull_timeout / 2
        if late and job.came_at is None and isinstance(job.asked, AskRange):
            return False
        spans = [ask for ask in (*job.fetch, job.asked) if isinstance(ask, AskRange)]
        spans = [span for span in spans if not span.ids_only]
        above = any(span.after is None or span.after[0] <= clock for span in spans)
        return above and any(span.until is None or clock <= span.until[0] for span in spans)

    def next(self) -> Time:
        if self._job is not None:
            return self._job.deadline
        return min(self._queue_at if self._queue else NEVER, self._periodic_at, self._decide_at)

    def peer_up(self, peer: PeerRef, now: Time) -> None:
        """A peer to compare with, if there aren't enough already."""
        if len(self._queue) < JOIN_PEERS:
            if not self._queue:
                self._queue_at = now + self.rng.random() * _JOIN_DELAY
            self._queue[peer] = None
        if self._periodic_at == NEVER:
            self._periodic_at = self._after_interval(now)

    def peer_down(self, peer: PeerRef, now: Time) -> None:
        self._queue.pop(peer, None)
        self._equal.pop(peer, None)
        self.failed(peer, now)

    def asked_by(self, ask: AskCompare, answer: LogComparison, now: Time) -> None:
        """A peer has compared its log with ours. Where they are equal, we needn't ask it too."""
        peer, ranges = ask.peer, ask.ranges
        whole = len(ranges) == 1 and ranges[0].after == self.log.floor and ranges[0].until is None
        differs = answer.parts or answer.keys or (whole and ranges[0].count != len(self.log))
        if whole and not differs and peer in self.peers:
            self._equal[peer] = (now, self.log.added)

    def failed(self, peer: PeerRef, now: Time) -> None:
        """The peer didn't answer, or with an error."""
        if self._job is not None and self._job.peer == peer:
            if isinstance(self._job.asked, AskRange):
                self._page = max(_LEAST_PAGE, self._page // 4)
            self._end(now, again=bool(self._job.fetch or self._job.compare or self._job.found))

    def poll(self, now: Time) -> list[Effect]:
        if self._job is not None:
            if now < self._job.deadline:
                return []
            self.peers.failed(self._job.peer, now)
            self.failed(self._job.peer, now)
        if now >= self._decide_at:
            effects = self.joining.decide(now)
            self._decide_at = NEVER
            return effects + self._start(next(iter(self.joining.said)), now)
        if self._queue and now >= self._queue_at:
            peer = next(iter(self._queue))
            del self._queue[peer]
        elif now >= self._periodic_at:
            lately = now - _LONGEST * self.params.heads_interval * self._pause
            self._periodic_at = self._after_interval(now)
            ready = self.peers.ready(now)
            if not ready:
                self._periodic_at = min(self._after_interval(now), now + self.params.pull_timeout)
                return []
            peer = self.rng.choice(ready)
            equal_at, had = self._equal.get(peer, (lately, -1))
            if equal_at > lately and had == self.log.added and not self.joining.pending:
                self._rest(quiet=had == self._seen)
                self._periodic_at = self._after_interval(now)
                return []
        else:
            return []
        return self._start(peer, now)

    def compared(self, peer: PeerRef, answer: LogComparison, now: Time) -> list[Effect]:
        """The peer's parts of what we asked: to compare further, or to fetch."""
        job = self._job
        if job is None or job.peer != peer or not isinstance(job.asked, AskCompare):
            return []
        first, salt, page = job.rounds == 1, job.asked.salt, self.params.page_items
        fetch: list[AskRange] = []
        for part in answer.parts:
            ours = self.log.summary(salt, part.after, part.until)
            below = part.until is not None and self.log.below_floor(part.until)
            if ours == (part.count, part.hash) or part.count == 0 or below:
                continue
            job.found = True
            if part.count > LEAF and ours[0] * 2 <= part.count:
                if fetch and fetch[-1].until == part.after:
                    fetch[-1] = replace(fetch[-1], until=part.until)
                else:
                    fetch.append(AskRange(peer, page, part.after, part.until))
            elif len(job.compare) < MAX_RANGES:
                job.compare.append(RangeHash(part.after, part.until, *ours))
        job.found |= bool(answer.keys)
        if first and answer.older and self.log.floor is None and answer.floor is not None:
            have = self.log.summary(salt, None, answer.floor)[0]
            if have < answer.older:
                job.found = True
                fetch.insert(0, AskRange(peer, page, None, answer.floor, ids_only=have > 0))
        job.fetch = [*reversed(fetch), *job.fetch]
        return self._go_on(now)

    def page_comes(self, peer: PeerRef, now: Time) -> None:
        """A page has arrived, and its messages are being taken in: the peer needn't hurry."""
        job = self._job
        if job is not None and job.peer == peer and isinstance(job.asked, AskRange):
            job.came_at = now if job.came_at is None else job.came_at
            job.deadline = now + _PATIENCE * self.params.pull_timeout

    def range_answered(
        self, peer: PeerRef, ids: Sequence[Key], more: Key | None, now: Time
    ) -> list[Effect]:
        """A page has been taken in; `more` is where the next one starts, None after the last."""
        job = self._job
        if job is None or job.peer != peer or not isinstance(job.asked, AskRange):
            return []
        asked = job.asked
        if asked.newest_first:
            return self._newest_came(job, ids, more, now)
        stuck = more is not None and asked.after is not None and more <= asked.after
        if stuck:
            self.peers.failed(peer, now)
            self._end(now, again=True)
            return []
        self._measure((now if job.came_at is None else job.came_at) - job.asked_at)
        if more is not None:
            job.fetch.append(replace(asked, after=more))
        return self._go_on(now)

    def _start(self, peer: PeerRef, now: Time) -> list[Effect]:
        job = self._job = _Job(peer, now, now + _TURN)
        if self.joining.pending and self.joining.signers is not None:
            return self._asking(job, AskSnapshot(peer, self.joining.signers), now)
        if self.joining.pending:
            return self._ask_newest(job, None, now)
        job.compare = [RangeHash(self.log.floor, None, 0, b"")]
        return self._ask(job, now)

    def _ask_newest(self, job: _Job, until: Key | None, now: Time) -> list[Effect]:
        limit = min(max(1, self.joining.last or 0), self.params.page_items)
        ask = AskRange(job.peer, limit, None, until, ids_only=True, newest_first=True)
        return self._asking(job, ask, now)

    def _asking(self, job: _Job, ask: Ask, now: Time) -> list[Effect]:
        job.asked, job.asked_at, job.came_at = ask, now, None
        job.deadline = now + _PATIENCE * self.params.pull_timeout
        return [ask]

    def snapshot_answered(
        self, ask: AskSnapshot, until: int | None, rest: AskSnapshot | None, now: Time
    ) -> list[Effect]:
        """A peer has a snapshot up to a clock, or a part of one, of which the `rest` is to be asked
        for; or it has none. Where three have none, we begin with everything."""
        job = self._job
        if job is None or job.asked is not ask:
            return []
        if rest is not None:
            return self._asking(job, rest, now)
        self._end(now, again=False)
        if not self.joining.pending:
            return self._start(ask.peer, now)
        self.joining.refused += until is None
        alone = not self.peers.others(ask.peer, now)
        if until is None and not alone and self.joining.refused < JOIN_PEERS:
            self.peers.failed(ask.peer, now)  # another is asked
            self._periodic_at = now
            return []
        return self.joining.begin(until or 0, now) + self._start(ask.peer, now)

    def _newest_came(
        self, job: _Job, ids: Sequence[Key], more: Key | None, now: Time
    ) -> list[Effect]:
        """Places of the peer's newest messages, by which it is decided where our log begins."""
        had = len(job.newest)
        job.newest += [key for key in ids if not job.newest or key < job.newest[-1]]
        if more is not None and had < len(job.newest) < (self.joining.last or 0):
            return self._ask_newest(job, more, now)
        self.peers.answered(job.peer)
        self.joining.hear(job.peer, job.newest, now)
        if self.joining.said and self._decide_at == NEVER:
            self._decide_at = now + 2 * _JOIN_DELAY
        if len(self.joining.said) >= JOIN_PEERS:
            self._decide_at = now
        self._end(now, again=False)
        return []

    def _go_on(self, now: Time) -> list[Effect]:
        job = self._job
        if job is None:
            return []
        self.peers.answered(job.peer)
        if now >= job.turn_ends and self.peers.others(job.peer, now):
            self.peers.failed(job.peer, now)
            self._end(now, again=True)
            return []
        if not job.compare and not job.fetch:
            # While nothing is new, the next comparisons get rarer.
            self._rest(quiet=not job.found and self.log.added == self._seen)
            self._end(now, again=False)
            return []
        return self._ask(job, now)

    def _ask(self, job: _Job, now: Time) -> list[Effect]:
        job.rounds += 1
        if job.compare and job.rounds <= _ROUNDS:
            salt = self.rng.randbytes(SALT_SIZE)
            ranges = tuple(
                RangeHash(r.after, r.until, *self.log.summary(salt, r.after, r.until))
                for r in sorted(job.compare, key=lambda r: r.after or _FIRST)[:MAX_RANGES]
            )
            job.compare = []
            return self._asking(job, AskCompare(job.peer, salt, ranges), now)
        if job.fetch:
            span = job.fetch.pop()
            most = _IDS_PAGE if span.ids_only else self.params.page_items
            return self._asking(job, replace(span, limit=min(self._page, most)), now)
        self._end(now, again=False)
        return []

    def _measure(self, took: float) -> None:
        """The next pages are shorter or longer than one that took so many seconds."""
        if took > self.params.pull_timeout / 2:
            self._page = max(_LEAST_PAGE, self._page // 2)
        elif took < self.params.pull_timeout / 4:
            self._page = min(self.params.page_items, 2 * self._page)

    def missing(self, now: Time) -> None:
        """While something is left to comparisons, they don't get rarer."""
        if self.wants.left and self._pause > 1.0:
            self._pause = 1.0
            self._periodic_at = min(self._periodic_at, self._after_interval(now))

    def _rest(self, *, quiet: bool) -> None:
        rarer = quiet and not self.wants.left
        self._pause = min(_IDLE_FACTOR, self._pause * 2) if rarer else 1.0
        self._seen = self.log.added

    def _end(self, now: Time, *, again: bool) -> None:
        self._job = None
        self._queue_at = now
        if again:
            self._pause = 1.0
            self._periodic_at = min(self._periodic_at, now)

    def _after_interval(self, now: Time) -> Time:
        interval = self.params.heads_interval * self._pause
        step = interval / _STEPS
        at = now + interval * self.rng.uniform(_SHORTEST, _LONGEST)
        return max(now, math.ceil(at / step) * step)
