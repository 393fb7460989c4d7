"""What deeds earn and cost, and how long that lasts."""

from __future__ import annotations

import pytest

from episub_router.protocol import standing as rules
from episub_router.protocol.standing import MAX_STANDINGS, Standings


def test_a_standing_is_the_sum_of_deeds_within_bounds() -> None:
    standings = Standings()
    assert standings.of("a", 0.0) == 0.0
    standings.add("a", rules.FIRST_COPY, 0.0)
    standings.add("a", rules.KEPT_PROMISE, 0.0)
    assert standings.of("a", 0.0) == 2.0
    for _ in range(100):
        standings.add("a", rules.FIRST_COPY, 0.0)
        standings.add("b", rules.BROKEN_PROMISE, 0.0)
    assert standings.all(0.0) == {"a": rules.MOST, "b": rules.LEAST}


@pytest.mark.parametrize("earned", [6.0, -6.0])
def test_it_is_forgotten_good_or_bad(earned: float) -> None:
    standings = Standings()
    standings.add("a", earned, 0.0)
    assert standings.of("a", rules.HALF_LIFE) == pytest.approx(earned / 2)
    standings.add("a", earned, rules.HALF_LIFE)
    assert standings.of("a", rules.HALF_LIFE) == pytest.approx(1.5 * earned)


def test_who_breaks_promises_is_bad_and_then_condemned() -> None:
    standings, verdicts = Standings(), []
    for _ in range(12):
        standings.add("a", rules.BROKEN_PROMISE, 0.0)
        verdicts.append((standings.is_bad("a", 0.0), standings.is_condemned("a", 0.0)))
    assert verdicts[1] == (False, False)
    assert verdicts[2] == (True, False)
    assert verdicts[-1] == (True, True)


def test_frames_that_are_lost_condemn_nobody() -> None:
    """5 % in each direction: one of ten promises is broken, one of five where all goes wrong."""
    standings = Standings()
    for n in range(1, 1000):
        broken = n % 5 == 0
        standings.add("a", rules.BROKEN_PROMISE if broken else rules.KEPT_PROMISE, n * 0.1)
        assert not standings.is_bad("a", n * 0.1)


def test_the_application_has_the_last_word() -> None:
    standings = Standings()
    standings.set("a", -100.0)
    assert standings.is_condemned("a", 0.0)
    standings.add("a", rules.FIRST_COPY, 0.0)
    assert standings.of("a", 10_000.0) == pytest.approx(-100.0)
    standings.set("a", 0.0)
    assert not standings.is_bad("a", 0.0)
    standings.set("b", 1000.0)
    for _ in range(100):
        standings.add("b", rules.FORGED_PAYLOAD, 0.0)
    assert not standings.is_bad("b", 0.0)
    standings.set("b", 0.0)
    assert standings.is_condemned("b", 0.0)
    standings.forgive("b")
    assert standings.of("b", 0.0) == 0.0


def test_made_up_peers_take_no_room() -> None:
    standings = Standings()
    standings.add("a", rules.FORGED_PAYLOAD, 0.0)
    for n in range(2 * MAX_STANDINGS):
        standings.add(n, rules.FORGED_PAYLOAD, 0.0)
        standings.add("a", rules.FORGED_PAYLOAD, 0.0)
    assert len(standings.all(0.0)) == MAX_STANDINGS
    assert standings.is_condemned("a", 0.0)
