"""Clock offsets from sends and receipts."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pipeline import handmade, oracle
from tests.pipeline.files import SECOND

if TYPE_CHECKING:
    from tests.pipeline.conftest import Swept

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
    return pd.DataFrame(rows, columns=["run", "sender", "receiver", "delay", "exchanges"]).assign(
        time=0
    )


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


def test_latencies_are_those_of_one_clock(swept: Swept) -> None:
    """Where clocks are off by up to a minute."""
    true = [event | {"offset": 0, "hops": None} for event in handmade.mesh(handmade.FOUR)]
    wanted = oracle.deliveries(true)
    found = swept.table("deliveries", "skewed", layer="silver")
    assert len(found) == len(wanted) == 36
    for row in found:
        assert row.latency == wanted[row.message, row.peer]["latency"] == handmade.DELAY
        source = handmade.FOUR[int(row.message[1:]) % 4]
        between = handmade.SKEW[row.peer] - handmade.SKEW[source]
        assert row.raw_latency == handmade.DELAY + between


def test_of_many_exchanges_a_sample_is_matched_with_both_ends(
    swept: Swept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the runs that have too many alone."""
    from episub_router.pipeline.facts import clocks

    events = swept.lake.events()
    counts = events.where("event IN ('send', 'recv') AND remote IS NOT NULL").groupBy("run").count()
    rpcs = {row["run"]: row["count"] for row in counts.collect()}

    def matched() -> list[tuple[Any, ...]]:
        return sorted(tuple(row) for row in clocks.exchanges(events).collect())

    everything = matched()
    largest = Counter(row[0] for row in everything).most_common(1)[0][0]
    monkeypatch.setattr(clocks, "ENOUGH", rpcs[largest] // 3)
    sample = matched()
    of_largest = [row for row in everything if row[0] == largest]
    chosen = [row for row in sample if row[0] == largest]
    assert set(sample) < set(everything)
    assert 0.1 < len(chosen) / len(of_largest) < 0.6
    small = {run for run, count in rpcs.items() if count <= clocks.ENOUGH}
    assert [row for row in sample if row[0] in small] == [
        row for row in everything if row[0] in small
    ]


def test_latencies_by_a_clock_that_was_set_are_left_out(swept: Swept) -> None:
    """A clock that jumps by five seconds in the middle of a run makes no latency of five seconds,
    and costs the other peers nothing."""
    found = swept.table("deliveries", "jumped", layer="silver")
    (spread,) = (row for row in swept.table("spread", "jumped") if row.window is None)
    (quality,) = swept.table("quality", "jumped")
    for row in found:
        source = handmade.FIVE[int(row.message[1:]) % 5]
        assert row.latency == (None if "d" in (row.peer, source) else handmade.DELAY)
    unknown = sum(row.latency is None for row in found)
    assert (spread.deliveries, spread.unknown_latencies) == (60, unknown)
    assert unknown == quality.unknown_latencies == 3 * 4 + 12 * 1
    assert quality.clocks_set == 1
    assert (spread.latency_p50, spread.latency_max) == (handmade.DELAY, handmade.DELAY)


def test_one_sided_and_contradictory_exchanges_are_named() -> None:
    one_way = solve(delays({"a": 0, "b": 0}, [("a", "b")], 1)).set_index("peer")
    assert one_way["note"].tolist().count("bounded from one side only") == 1
    rows = [("r", "a", "b", -50, 1), ("r", "b", "a", -50, 1)]
    set_back = solve(table(rows))
    assert set_back["note"].str.startswith("contradictory").all()
    assert set_back["offset"].isna().all()
    assert not set_back["correction"].any()


@pytest.mark.parametrize(
    ("links", "was_set", "alone"),
    [
        (["ha", "hb", "hc", "hd", "he", "hf"], "ef", ""),  # a star
        (["ab", "bc", "cd", "de", "ea", "ac"], "b", ""),
        (["ab", "be"], "e", ""),  # a path
        (["ab", "bc"], "b", "ac"),
        (["ab"], "ab", ""),  # either
    ],
)
def test_clocks_that_were_set_are_named_and_no_others(
    links: list[str], was_set: str, alone: str
) -> None:
    pairs = [pair for a, b in links for pair in ((a, b), (b, a))]
    measured = delays(dict.fromkeys("abcdefh", 0), pairs, 4)
    # Back by a minute: of what came before and after, the least delays count.
    measured.loc[measured["receiver"].isin(list(was_set)), "delay"] -= 60 * SECOND
    found = solve(measured).set_index("peer")
    for peer, row in found.iterrows():
        noted = str(row["note"] or "")
        assert noted.startswith("contradictory") == (peer in was_set)
        assert noted.startswith("none of those") == (peer in alone)
        assert (row["offset"] is pytest.importorskip("pandas").NA) == (peer in was_set + alone)


def test_a_clock_that_was_set_costs_the_others_nothing() -> None:
    names = ["a", "b", "c", "d", "e"]
    pairs = [(a, b) for a in names for b in names if a != b]
    offsets = dict.fromkeys(names, 0) | {"d": 700 * MILLISECOND}
    measured = delays(offsets, pairs, 3)
    # e's clock went back by a minute: of what came before and after, the least delays count.
    measured.loc[measured["receiver"] == "e", "delay"] -= 60 * SECOND
    found = solve(measured).set_index("peer")
    assert len(found) == len(names)
    assert found.loc["e", "note"].startswith("contradictory")
    assert found.loc["d", "correction"] == pytest.approx(700 * MILLISECOND, abs=40 * MILLISECOND)
    assert not found.loc[["a", "b", "c", "e"], "correction"].any()
    assert found.loc[["a", "b", "c", "d"], "note"].isna().all()


def drifting(rates: dict[str, float], seconds: int, jump: dict[str, int]) -> Any:
    """What peers measure that send to each other every ten seconds, of which transit takes 1 to 3
    ms; their clocks are fast by `rates`, and set forward by `jump` ns in the middle."""
    rng = random.Random(7)
    rows = []
    for at in range(0, seconds, 10):
        for sender in rates:
            for receiver in rates:
                if sender != receiver:
                    sent = at * SECOND + rng.randrange(SECOND)
                    came = sent + rng.randrange(MILLISECOND, 3 * MILLISECOND)
                    times = [
                        true + round(rates[peer] * true) + jump.get(peer, 0) * (at > seconds // 2)
                        for peer, true in ((sender, sent), (receiver, came))
                    ]
                    rows.append(("r", sender, receiver, times[1] - times[0], times[0], 1))
    pd = pytest.importorskip("pandas")
    columns = ["run", "sender", "receiver", "delay", "time", "exchanges"]
    return pd.DataFrame(rows, columns=columns)


def off(row: Any, time: int) -> float:
    """What is taken off a time."""
    return float(row["correction"] + row["drift"] * (time - row["since"]))


@pytest.mark.parametrize("rates", [{"d": 1e-5}, {"d": -1e-4}, {"a": 2e-5, "b": -3e-5, "d": 5e-5}])
def test_a_clock_that_drifts_is_put_right_at_any_time(rates: dict[str, float]) -> None:
    """One at 10 ppm is off by 36 ms after an hour; where others drift, too, by what it does more
    than they."""
    rates = dict.fromkeys("abcde", 0.0) | rates
    found = solve(drifting(rates, 3600, {})).set_index("peer")
    assert found["offset"].notna().all()
    for time in (0, 1800 * SECOND, 3600 * SECOND):
        left = [rates[peer] * time - off(row, time) for peer, row in found.iterrows()]
        assert max(left) - min(left) < MILLISECOND
    for peer, row in found.iterrows():
        assert bool(row["note"]) == (row["drift"] != 0), peer


def test_a_clock_that_is_set_is_no_drift() -> None:
    rates = dict.fromkeys("abcde", 0.0) | {"b": 1e-5}
    found = solve(drifting(rates, 3600, {"d": 5 * SECOND})).set_index("peer")
    assert str(found.loc["d", "note"]).startswith("contradictory")
    assert str(found.loc["b", "note"]).startswith("drifts by")
    assert not found.loc[["a", "c", "e"], "correction"].any()
    assert not found.loc[["a", "c", "e"], "drift"].any()


def test_latencies_of_a_drifting_clock_are_kept(spark: Any, tmp_path: Any) -> None:
    """All within what the exchanges leave open, where without the fit none would be known."""
    from episub_router.pipeline.lake import Lake
    from episub_router.pipeline.params import AnswerParams
    from episub_router.pipeline.run import answer
    from tests.pipeline.records import put_records

    lake = Lake(spark, str(tmp_path / "lake"))
    # In the time of the run, that is more than the way takes.
    rate = 400e-6
    events = [
        event | {"time": event["time"] + round(rate * (event["time"] - handmade.START))}
        if event["peer"] == "d" else event
        for event in handmade.mesh(handmade.FIVE, every=60)
    ]  # fmt: skip
    put_records(lake, {"drifting": events})
    for _ in answer(lake, AnswerParams()):
        pass
    (quality,) = lake.read("gold", "quality", ["drifting"]).collect()
    assert (quality.clocks_set, quality.unknown_latencies, quality.clocks_corrected) == (0, 0, 1)
    for row in lake.read("silver", "deliveries", ["drifting"]).where("NOT origin").collect():
        assert abs(row.latency - handmade.DELAY) < 10 * MILLISECOND
