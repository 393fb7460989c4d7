"""Requests are limited by peer and channel."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
import trio
from libp2p.peer.id import ID
from trio.testing import MockClock, wait_all_tasks_blocked

from episub_router.sds.net import exchange
from episub_router.sds.net.asking import Asker, Step
from episub_router.sds.net.limiter import (
    MOST_ASKS,
    PEER_RATE,
    HostPace,
    RequestLimiter,
)
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.effects import Response
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.wire.exchange import Request


def test_a_peer_has_its_burst_and_then_its_rate() -> None:
    limiter = RequestLimiter()
    waits = [limiter.wait("p", 10.0) for _ in range(PEER_RATE.burst)]
    assert set(waits) == {0.0}
    wait = limiter.wait("p", 10.0)
    assert 0 < wait <= 1 / PEER_RATE.per_second + 1e-6
    assert limiter.wait("other", 10.0) == 0.0
    assert limiter.wait("p", 10.0 + wait) == 0.0  # as it said
    assert limiter.wait("p", 10.0 + wait) > 0


def test_three_hundred_channels_that_join_at_once_are_served() -> None:
    limiter = RequestLimiter()
    assert not any(limiter.wait("p", 10.0) for _ in range(5) for n in range(300))


@pytest.mark.parametrize(
    ("size", "listed", "seconds"),
    [(2**20, 4000, 0.1), (2**20, 1, 0.01), (200_000, 1024, 0.015)],
    ids=["short messages", "large messages", "64 ranges of 100,000 messages"],
)
def test_what_answering_a_peer_takes_is_bounded(size: int, listed: int, seconds: float) -> None:
    """A compare of 286 bytes took 271 ms of a log of 100,000, as often as it came; a peer that
    asked for pages of short messages took 20 % of a core."""
    limiter, now, answered = RequestLimiter(), 10.0, 0
    for _ in range(12_000):
        if limiter.wait("p", now) == 0:
            limiter.served("p", size, listed, now)
            answered += 1
        now += 0.05
    assert answered * seconds < 0.05 * 600.0
    assert limiter.wait("other", now) == 0


async def test_a_peer_that_never_answers_holds_up_no_other(autojump_clock: MockClock) -> None:
    """A thousand channels ask both; those asked first are all of the one."""
    pace, timeout = HostPace(), 10.0
    answered_at: list[float] = []

    async def ask(peer: str, seconds: float) -> None:
        async with pace.turn(peer):
            await trio.sleep(seconds)
        if peer == "quick":
            answered_at.append(trio.current_time() - start)

    start = trio.current_time()
    async with trio.open_nursery() as nursery:
        for peer, seconds in (("silent", timeout), ("quick", 0.1)):
            for _ in range(100):
                nursery.start_soon(ask, peer, seconds)
            await wait_all_tasks_blocked()
    assert answered_at[-1] < 2.0
    assert trio.current_time() - start == pytest.approx(timeout * math.ceil(200 / MOST_ASKS))


class Host:
    """One that is never used."""


def asker_of(
    awaits: Callable[[fx.Ask], bool] = lambda effect: True, counts: Counter[str] | None = None
) -> Asker:
    async def act(step: Step) -> None:
        pass

    channel = SimpleNamespace(
        topic_name="topic",
        channel_id="channel",
        params=SdsParams(),
        participant=SimpleNamespace(awaits=awaits),
        act=act,
        counts=Counter() if counts is None else counts,
    )
    return Asker(cast(Any, Host()), cast(Any, channel))


async def test_what_waits_for_its_turn_is_asked_only_while_it_is_of_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[tuple[str, ...]] = []
    finish, wanted = trio.Semaphore(0), {"first", "a"}

    async def ask(host: object, peer: ID, request: Request, **options: object) -> Response:
        assert isinstance(request.ask, fx.AskIds)
        asked.append(request.ask.ids)
        await finish.acquire()
        raise exchange.ExchangeError("none")

    def awaits(effect: fx.Ask) -> bool:
        return isinstance(effect, fx.AskIds) and not wanted.isdisjoint(effect.ids)

    monkeypatch.setattr(exchange, "ask", ask)
    asker = asker_of(awaits)
    peer, busy = ID(b"peer").to_base58(), MOST_ASKS // 2
    async with trio.open_nursery() as nursery:
        for ids in [("first",)] * busy + [("found meanwhile",), ("a", "b")]:
            nursery.start_soon(asker.ask, fx.AskIds(peer, ids))
            await wait_all_tasks_blocked()
        assert asked == [("first",)] * busy
        for _ in range(busy + 1):
            finish.release()
            await wait_all_tasks_blocked()
    assert asked[busy:] == [("a", "b")]
