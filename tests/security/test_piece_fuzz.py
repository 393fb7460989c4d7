"""Damaged frames of pieces are survived; `python -m tests.security.piece_fuzz` does more."""

from __future__ import annotations

import pytest

from tests.security.piece_fuzz import fuzz

ROUNDS = 30_000


@pytest.mark.slow
def test_damaged_pieces_give_the_message_or_nothing() -> None:
    refused, whole = fuzz(ROUNDS, seed=1)
    assert refused > ROUNDS // 100
    assert whole > ROUNDS // 2500
