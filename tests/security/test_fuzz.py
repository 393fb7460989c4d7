"""Frames at random are survived; `python -m tests.security.fuzz` does more of them."""

from __future__ import annotations

import pytest

from tests.security.fuzz import fuzz

ROUNDS = 2_000


@pytest.mark.hosts
@pytest.mark.slow
async def test_random_frames_are_survived() -> None:
    assert ROUNDS // 100 < await fuzz(ROUNDS, seed=1) < ROUNDS
