"""Tables with bounds, token buckets and timers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from episub_router.util.bounded import put_last
from episub_router.util.params import Rate
from episub_router.util.timers import NEVER, TimerMap
from episub_router.util.token_buckets import TokenBuckets


@given(st.lists(st.integers(0, 9)), st.integers(1, 5))
def test_a_table_keeps_the_newest_keys(keys: list[int], most: int) -> None:
    table: dict[int, int] = {}
    for at, key in enumerate(keys):
        before = list(table)
        dropped = put_last(table, key, at, most)
        assert dropped is None or dropped == next(k for k in before if k != key)
    newest_first = list(dict.fromkeys(reversed(keys)))
    assert list(reversed(table)) == newest_first[:most]


@given(st.lists(st.tuples(st.sampled_from("ab"), st.floats(0, 2)), max_size=60))
def test_a_bucket_gives_its_burst_and_its_rate_and_no_more(takes: list[tuple[str, float]]) -> None:
    buckets: TokenBuckets[str] = TokenBuckets(Rate(2.0, 3), most=2)
    left, now, at = {"a": 3.0, "b": 3.0}, 0.0, {"a": 0.0, "b": 0.0}
    for key, pause in takes:
        now += pause
        left[key] = min(3.0, left[key] + 2.0 * (now - at[key]))
        at[key] = now
        if abs(left[key] - 1) < 1e-5:
            continue  # As near as rounding goes.
        allowed = buckets.take(key, now)
        assert allowed == (left[key] >= 1)
        left[key] -= allowed


def test_a_debt_is_paid_back_by_time() -> None:
    buckets: TokenBuckets[str] = TokenBuckets(Rate(1.0, 2), most=8)
    buckets.spend("a", 0.0, tokens=5)
    assert not buckets.has("a", 3.5)
    assert buckets.has("a", 4.0)
    assert (buckets.left("a", 0.0), buckets.wait("a", 0.0), buckets.wait("b", 0.0)) == (-3, 3, 0)
    buckets.spend("a", 4.0, tokens=-1)
    assert buckets.left("a", 4.0) == 2
    buckets.spend("a", 4.0, tokens=-1)
    assert buckets.left("a", 4.0) == 2, "no more than the burst"


def test_the_bucket_used_longest_ago_gives_way_and_full_ones_go() -> None:
    buckets: TokenBuckets[int] = TokenBuckets(Rate(1.0, 1), most=2)
    assert all(buckets.take(key, 0.0) for key in range(3))
    assert len(buckets) == 2
    assert buckets.take(0, 0.0)
    assert not buckets.take(2, 0.5)
    buckets.forget_full(1.0)
    assert not len(buckets)


@given(
    st.lists(
        st.tuples(st.sampled_from(["set", "earliest", "cancel", "due"]), st.integers(0, 5),
                  st.integers(0, 20)),
        max_size=80,
    )
)  # fmt: skip
def test_timers_are_due_in_order_and_once(steps: list[tuple[str, int, int]]) -> None:
    timers: TimerMap[int] = TimerMap()
    model: dict[int, int] = {}
    for do, key, at in steps:
        if do == "set":
            timers.set(key, at)
            model[key] = at
        elif do == "earliest":
            timers.set_earliest(key, at)
            model[key] = min(at, model.get(key, at))
        elif do == "cancel":
            timers.cancel(key)
            model.pop(key, None)
        else:
            due = timers.pop_due(at)
            assert sorted(due) == sorted(k for k, t in model.items() if t <= at)
            times = [model.pop(k) for k in due]
            assert times == sorted(times)
        assert timers.deadline == min(model.values(), default=NEVER)
        assert len(timers) == len(model)
        assert all(timers.get(k) == t and k in timers for k, t in model.items())
