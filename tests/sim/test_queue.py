"""Virtual time: actions happen in the order of (time, sequence), like in a heap."""

from __future__ import annotations

import heapq
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from episub_router.sim.network.queue import EventLoop

TIMES = st.lists(
    st.tuples(st.floats(0, 0.05), st.lists(st.floats(0, 0.004), max_size=3)), max_size=60
)


@given(plan=TIMES, stops=st.lists(st.floats(0, 0.06), max_size=4))
def test_order_is_that_of_a_heap(plan: list[tuple[float, list[float]]], stops: list[float]) -> None:
    loop = EventLoop()
    happened: list[tuple[float, int]] = []

    def act(entry: tuple[int, list[float]]) -> None:
        number, delays = entry
        happened.append((loop.now, number))
        for index, delay in enumerate(delays):
            loop.at(loop.now + delay, act, (1000 * (number + 1) + index, []))

    for number, (time, delays) in enumerate(plan):
        loop.at(time, act, (number, delays))
    for stop in sorted(stops):
        loop.run(stop)
        assert all(time <= stop for time, _ in happened)
    loop.run(1.0)

    expected: list[tuple[float, int]] = []
    heap: list[tuple[float, int, int, list[float]]] = []
    for number, (time, delays) in enumerate(plan):
        heapq.heappush(heap, (time, number, number, delays))
    sequence = len(plan)
    while heap:
        now, _, number, delays = heapq.heappop(heap)
        expected.append((now, number))
        for index, delay in enumerate(delays):
            heapq.heappush(heap, (now + delay, sequence, 1000 * (number + 1) + index, []))
            sequence += 1
    assert happened == expected
    assert loop.performed == len(expected)


def test_a_time_that_has_passed_means_now() -> None:
    loop = EventLoop()
    seen: list[float] = []
    note = partial(lambda loop, _: seen.append(loop.now), loop)
    loop.at(0.0105, lambda _: loop.at(0.001, note, None), None)
    loop.run(5.0)
    loop.at(1.0, note, None)
    loop.run(6.0)
    assert seen == [0.0105, 5.0]
    assert loop.now == 6.0
