"""In which order pieces of several messages go to one peer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from episub_router.util.turns import TURN, PieceTurns


def filled(**counts: int) -> PieceTurns[str, tuple[str, int]]:
    turns: PieceTurns[str, tuple[str, int]] = PieceTurns()
    for name, count in counts.items():
        for index in range(count):
            assert turns.put(name, index, (name, index), count - index - 1)
    return turns


def drained(turns: PieceTurns[str, tuple[str, int]]) -> list[tuple[str, int]]:
    found = []
    while turns:
        assert turns.first() == turns.first()
        first = turns.first()
        assert turns.take() == first
        found.append(first)
    return found


def test_the_message_goes_on_of_which_least_is_left() -> None:
    order = "".join(name for name, _ in drained(filled(a=3, b=2)))
    assert order == "bbaaa"


def test_of_equal_ones_the_one_that_has_begun_goes_on() -> None:
    assert "".join(name for name, _ in drained(filled(a=3, b=3))) == "aaabbb"


def test_one_that_has_less_to_come_overtakes() -> None:
    turns = filled(a=4)
    assert [turns.take() for _ in range(2)] == [("a", 0), ("a", 1)]
    assert turns.put("b", 0, ("b", 0), 0)
    assert [name for name, _ in drained(turns)] == ["b", "a", "a"]


def test_what_will_follow_counts() -> None:
    turns: PieceTurns[str, str] = PieceTurns()
    assert turns.put("a", 0, "a", 5)
    assert turns.put("b", 0, "b", 4)
    assert [turns.take(), turns.take()] == ["b", "a"]


def test_a_long_message_comes_on_beside_any_number_of_short_ones() -> None:
    turns = filled(long=20)
    taken = []
    for number in range(10 * TURN):
        turns.put(f"short {number}", 0, ("short", number), 0)
        taken.append(turns.take())
    # One turn is of a short one that had waited for longer.
    assert [index for name, index in taken if name == "long"] == list(range(9))


def test_what_is_forgotten_is_not_sent() -> None:
    turns = filled(a=2, b=1)
    assert turns.forget(["a", "unknown"]) == [("a", 0), ("a", 1)]
    assert (len(turns), turns.messages()) == (1, ["b"])
    turns.clear()
    assert not turns
    assert turns.put("a", 0, ("a", 0), 0)


PUTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(0, 9)))


@given(PUTS, st.integers(0, 30))
def test_all_that_is_put_comes_out_once_and_in_the_order_of_its_message(
    puts: list[tuple[str, int, int]], early: int
) -> None:
    turns: PieceTurns[str, tuple[str, int]] = PieceTurns()
    waiting: list[tuple[str, int]] = []
    for number, (name, index, more) in enumerate(puts):
        assert turns.put(name, index, (name, index), more) == ((name, index) not in waiting)
        if (name, index) not in waiting:
            waiting.append((name, index))
        if number % 3 == 0 and early:
            taken = turns.take()
            assert taken == next(piece for piece in waiting if piece[0] == taken[0])
            waiting.remove(taken)
        assert len(turns) == len(waiting)
    rest = drained(turns)
    for name in "abc":
        assert [p for p in rest if p[0] == name] == [p for p in waiting if p[0] == name]
