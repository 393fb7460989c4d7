"""Frames at random are survived; `python -m tests.security.fuzz` and `piece_fuzz` do more."""

from __future__ import annotations

import pytest

from tests.security import fuzz, piece_fuzz

pytestmark = pytest.mark.slow


@pytest.mark.hosts
async def test_random_frames_are_survived() -> None:
    assert 10 < await fuzz.fuzz(1_000, seed=1) < 1_000


def test_damaged_pieces_give_the_message_or_nothing() -> None:
    rounds = 15_000
    refused, whole = piece_fuzz.fuzz(rounds, seed=1)
    assert refused > rounds // 100
    assert whole > rounds // 2500
