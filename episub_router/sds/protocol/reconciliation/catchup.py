"""Comparing logs with a peer, and fetching what it has and we don't.

On joining, and now and then: the peer tells its log in segments with a fingerprint each. Where
a segment differs from ours we fetch its ids, or, where most of it is new to us, its messages
in order. So a newcomer or a healed partition needs no traffic to catch up, and nothing that
equals is sent.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from episub_router.protocol.types import NEVER, Time
from episub_router.sds.protocol.causal.log import Log, Segment
from episub_router.sds.protocol.effects import AskHeads, AskRange, Effect, PeerRef
from episub_router.sds.protocol.entry import Key
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.protocol.reconciliation.peers import StreamPeers


@dataclass(frozen=True, slots=True)
class HeadsAnswer:
    """A peer's frontier, the length of its log, and its newest part in segments."""

    heads: tuple[Key, ...]
    count: int
    segments: tuple[Segment, ...]


@dataclass(slots=True)
class _Job:
    """One comparison under way. `ranges` are still to fetch, oldest last."""

    peer: PeerRef
    deadline: Time
    ranges: list[AskRange]
    asked: AskRange | None = None
    pages: int = 0


class Catchup:
    """At most one comparison at a time, so that two peers don't send us the same."""

    def __init__(self, params: SdsParams, rng: random.Random, peers: StreamPeers, log: Log) -> None:
        self._params = params
        self._rng = rng
        self._peers = peers
        self._log = log
        self._queue: dict[PeerRef, None] = {}
        self._queue_at: Time = NEVER
        self._periodic_at: Time = NEVER
        self._job: _Job | None = None

    def next(self) -> Time:
        if self._job is not None:
            return self._job.deadline
        return min(self._queue_at if self._queue else NEVER, self._periodic_at)

    def peer_up(self, peer: PeerRef, now: Time) -> None:
        """A peer to compare with, if there aren't enough already."""
        if len(self._queue) < self._params.heads_on_join:
            if not self._queue:
                self._queue_at = now + self._rng.random() * self._params.heads_delay
            self._queue[peer] = None
        if self._periodic_at == NEVER:
            self._periodic_at = now + self._interval()

    def peer_down(self, peer: PeerRef, now: Time) -> None:
        self._queue.pop(peer, None)
        if self._job is not None and self._job.peer == peer:
            self._end(now)

    def failed(self, peer: PeerRef, now: Time) -> None:
        """The peer didn't answer, or with an error."""
        if self._job is not None and self._job.peer == peer:
            self._end(now)

    def poll(self, now: Time) -> list[Effect]:
        if self._job is not None:
            if now < self._job.deadline:
                return []
            self._peers.failed(self._job.peer, now)
            self._end(now)
        if self._queue and now >= self._queue_at:
            peer = next(iter(self._queue))
            del self._queue[peer]
        elif now >= self._periodic_at:
            self._periodic_at = now + self._interval()
            chosen = self._peers.choose(self._rng, now=now)
            if chosen is None:
                return []
            peer = chosen
        else:
            return []
        self._job = _Job(peer, now + self._params.pull_timeout, [])
        return [AskHeads(peer)]

    def heads_answered(self, peer: PeerRef, answer: HeadsAnswer, now: Time) -> list[Effect]:
        """Compare the peer's segments with our log, and fetch what differs, oldest first."""
        job = self._job
        if job is None or job.peer != peer or job.asked is not None:
            return []
        floor = self._log.floor
        for segment in answer.segments:
            if floor is not None and (segment.after is None or segment.after < floor):
                break  # reaches below what we keep, so it always differs
            count, fingerprint = self._log.summary(segment.after, segment.until)
            if (count, fingerprint) != (segment.count, segment.fingerprint):
                mostly_new = count * 2 <= segment.count
                job.ranges.append(
                    AskRange(peer, segment.after, segment.until, ids_only=not mostly_new)
                )
        if answer.segments:
            oldest = answer.segments[-1].after
            told = sum(s.count for s in answer.segments)
            behind = oldest is not None and floor is None
            if behind and self._log.summary(None, oldest)[0] < answer.count - told:
                job.ranges.append(AskRange(peer, None, oldest, ids_only=len(self._log) > 0))
        return self._next_page(now)

    def range_answered(self, peer: PeerRef, more: Key | None, now: Time) -> list[Effect]:
        """A page has arrived; `more` is where the next one starts, None after the last."""
        job = self._job
        if job is None or job.peer != peer or job.asked is None:
            return []
        asked, job.asked = job.asked, None
        job.pages += 1
        stuck = more is not None and asked.after is not None and more <= asked.after
        if stuck or job.pages > self._params.log_limit:
            self._peers.failed(peer, now)
            self._end(now)
            return []
        if more is not None:
            job.ranges.append(AskRange(peer, more, asked.until, asked.ids_only))
        return self._next_page(now)

    def _next_page(self, now: Time) -> list[Effect]:
        job = self._job
        if job is None:
            return []
        self._peers.answered(job.peer)
        if not job.ranges:
            self._end(now)
            return []
        job.asked = job.ranges.pop()
        job.deadline = now + self._params.pull_timeout
        return [job.asked]

    def _end(self, now: Time) -> None:
        self._job = None
        self._queue_at = now

    def _interval(self) -> float:
        return self._params.heads_interval * self._rng.uniform(0.75, 1.25)
