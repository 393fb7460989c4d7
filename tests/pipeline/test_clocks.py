"""Clock offsets from sends and receipts."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytestmark = pytest.mark.spark

MILLISECOND = 1_000_000


def solve(delays: Any) -> Any:
    pytest.importorskip("pyspark")
    from episub_router.pipeline.facts import clocks

    return clocks.solve(delays)


def delays(
    offsets: dict[str, int], pairs: list[tuple[str, str]], seed: int, exchanges: int = 20
) -> Any:
    """What is measured on `pairs` where transit takes 5 to 80 ms each way."""
    rng = random.Random(seed)
    rows = []
    for sender, receiver in pairs:
        least = min(rng.randrange(5, 80) for _ in range(exchanges)) * MILLISECOND
        rows.append(("r", sender, receiver, least + offsets[receiver] - offsets[sender], exchanges))
    return table(rows)


def table(rows: list[tuple[Any, ...]]) -> Any:
    pd = pytest.importorskip("pandas")
    return pd.DataFrame(rows, columns=["run", "sender", "receiver", "delay", "exchanges"])


@settings(deadline=None)
@given(st.lists(st.integers(-(10**10), 10**10), min_size=2, max_size=12), st.integers(0, 2**32))
def test_the_truth_is_within_the_uncertainty(clocks: list[int], seed: int) -> None:
    names = [f"p{number}" for number in range(len(clocks))]
    offsets = dict(zip(names, clocks, strict=True))
    ring = list(zip(names, names[1:] + names[:1], strict=True))
    chords = random.Random(seed).choices([(a, b) for a in names for b in names if a != b], k=5)
    pairs = list(dict.fromkeys([*ring, *chords]))
    found = solve(delays(offsets, pairs, seed))
    assert len(found) == len(names)
    for row in found.itertuples():
        truth = offsets[row.peer] - offsets[row.reference]
        # A middle of whole nanoseconds may be half of one off.
        assert abs(truth - row.offset) <= row.uncertainty + 1
        if row.correction:
            assert row.correction == row.offset
            assert truth != 0


def test_clocks_that_agree_are_left_alone() -> None:
    names = ["a", "b", "c"]
    pairs = [(a, b) for a in names for b in names if a != b]
    found = solve(delays(dict.fromkeys(names, 0), pairs, 1))
    assert not found["correction"].any()
    assert (found["uncertainty"] <= 80 * MILLISECOND).all()


def test_a_wrong_clock_is_corrected() -> None:
    names = ["a", "b", "c", "d"]
    pairs = [(a, b) for a in names for b in names if a != b]
    offsets = dict.fromkeys(names, 0) | {"d": 700 * MILLISECOND}
    found = solve(delays(offsets, pairs, 2)).set_index("peer")
    assert found.loc["d", "correction"] == pytest.approx(700 * MILLISECOND, abs=20 * MILLISECOND)
    assert not found.loc[["a", "b", "c"], "correction"].any()


def test_one_sided_and_contradictory_exchanges_are_named() -> None:
    one_way = solve(delays({"a": 0, "b": 0}, [("a", "b")], 1)).set_index("peer")
    assert one_way["note"].tolist().count("bounded from one side only") == 1
    rows = [("r", "a", "b", -50, 1), ("r", "b", "a", -50, 1)]
    set_back = solve(table(rows))
    assert set_back["note"].str.startswith("contradictory").all()
    assert set_back["offset"].isna().all()
    assert not set_back["correction"].any()
