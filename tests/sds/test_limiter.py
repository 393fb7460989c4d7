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
    CHANNEL_RATE,
    HASHED_RATE,
    MOST_ASKS,
    PEER_RATE,
    SERVED_RATE,
    HostPace,
    RequestLimiter,
)
from episub_router.sds.protocol import effects as fx
from episub_router.sds.protocol.params import SdsParams
from episub_router.sds.wire.exchange import Request, Response
from episub_router.util.params import Rate


def test_one_channel_has_its_burst_and_then_its_rate() -> None:
    limiter = RequestLimiter()
    waits = [limiter.wait("p", ("t", "c"), 10.0) for _ in range(CHANNEL_RATE.burst)]
    assert set(waits) == {0.0}
    wait = limiter.wait("p", ("t", "c"), 10.0)
    assert 0 < wait <= 1 / CHANNEL_RATE.per_second + 1e-6
    assert limiter.wait("p", ("t", "other"), 10.0) == 0.0
    assert limiter.wait("other", ("t", "c"), 10.0) == 0.0
    assert limiter.wait("p", ("t", "c"), 10.0 + wait) == 0.0  # as it said
    assert limiter.wait("p", ("t", "c"), 10.0 + wait) > 0


def test_three_hundred_channels_that_join_at_once_are_served() -> None:
    limiter = RequestLimiter()
    assert not any(limiter.wait("p", ("t", f"{n}"), 10.0) for _ in range(5) for n in range(300))


def test_all_channels_together_are_bounded() -> None:
    limiter = RequestLimiter()
    refused = [n for n in range(5000) if limiter.wait("p", None, 10.0)]
    assert refused[0] == PEER_RATE.burst
    assert limiter.wait("another", ("t", "c"), 10.0) == 0.0


@pytest.mark.parametrize(
    ("spend", "cost", "rate"),
    [
        (RequestLimiter.hashed, 100_000, HASHED_RATE),
        (RequestLimiter.served, 2**20, SERVED_RATE),
    ],
)
def test_what_a_peer_lets_us_do_is_bounded(
    spend: Callable[[RequestLimiter, str, int, float], None], cost: int, rate: Rate
) -> None:
    """A compare of 286 bytes took 271 ms of a log of 100,000, as often as it came; a request of 30
    bytes for a page of 1 MiB takes some 70 ms."""
    limiter, now, answered = RequestLimiter(), 10.0, 0
    for _ in range(1000):
        if limiter.wait("p", ("t", "c"), now) == 0:
            spend(limiter, "p", cost, now)
            answered += 1
        now += 0.05
    assert answered * cost <= rate.burst + rate.per_second * 50.0 + cost
    assert answered < 1000
    assert limiter.wait("other", ("t", "c"), now) == 0


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


async def test_a_peer_that_says_later_holds_no_turn_until_then(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """One that says so to all that a host may ask at once would hold up what others are asked."""
    answered_at: dict[str, float] = {}
    busy, quick = ID(b"busy"), ID(b"quick")
    start = trio.current_time()

    async def ask(host: object, peer: ID, request: Request, **options: object) -> Response:
        if peer == busy and trio.current_time() < start + 5.0:
            raise exchange.ExchangeError("later", 6.0)
        answered_at[peer.to_base58()] = trio.current_time() - start
        raise exchange.ExchangeError("none")

    monkeypatch.setattr(exchange, "ask", ask)
    asker = asker_of()
    async with trio.open_nursery() as nursery:
        for peer in (busy, quick):
            for n in range(3 * MOST_ASKS):
                nursery.start_soon(asker.ask, fx.AskIds(peer.to_base58(), (f"{n}",)))
            await wait_all_tasks_blocked()
    assert answered_at == {quick.to_base58(): 0.0, busy.to_base58(): 6.0}


async def test_a_refusal_that_ends_when_the_time_is_over_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock
) -> None:
    """The event loop is busy when the asker should wake up, and its time is over after that."""
    lag = 0.5
    counts: Counter[str] = Counter()
    answers: list[float] = []

    async def ask(*of: object, within: float, max_size: int) -> Response:
        answers.append(within)
        if len(answers) > 1:
            with trio.fail_after(within):
                await trio.sleep_forever()
        raise exchange.ExchangeError("later", within - 0.01)

    async def be_busy() -> None:
        await trio.sleep(SdsParams().pull_timeout - 0.02)
        autojump_clock.jump(lag)

    monkeypatch.setattr(exchange, "ask", ask)
    asker = asker_of(counts=counts)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(be_busy)
        await asker.ask(fx.AskIds(ID(b"peer").to_base58(), ("a",)))
    assert counts["ask-failed"] == 1
    assert len(answers) == 1
