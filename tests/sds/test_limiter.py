"""Requests are limited by peer and channel."""

from __future__ import annotations

from episub_router.sds.net.limiter import (
    CHANNEL_BURST,
    CHANNEL_RATE,
    FEWEST_ASKS,
    MOST_ASKS,
    PEER_BURST,
    SLOW_ANSWER,
    HostPace,
    RequestLimiter,
)


def test_one_channel_has_its_burst_and_then_its_rate() -> None:
    limiter = RequestLimiter()
    waits = [limiter.wait("p", ("t", "c"), 10.0) for _ in range(int(CHANNEL_BURST))]
    assert set(waits) == {0.0}
    wait = limiter.wait("p", ("t", "c"), 10.0)
    assert 0 < wait <= 1 / CHANNEL_RATE
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
    assert refused[0] == PEER_BURST
    assert limiter.wait("another", ("t", "c"), 10.0) == 0.0


def test_a_host_asks_less_at_a_time_while_answers_take_long() -> None:
    pace = HostPace()
    assert pace.limiter.total_tokens == MOST_ASKS
    for _ in range(20):
        pace.took(SLOW_ANSWER + 1)
    assert pace.limiter.total_tokens == FEWEST_ASKS
    for _ in range(200):
        pace.took(SLOW_ANSWER / 2)
    assert pace.limiter.total_tokens == MOST_ASKS
