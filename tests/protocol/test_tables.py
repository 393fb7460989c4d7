"""Tables that give their room back."""

from __future__ import annotations

import sys

from episub_router.protocol.tables import take


def test_a_table_that_has_become_empty_is_as_small_as_a_new_one() -> None:
    table = {key: str(key) for key in range(100)}
    assert [take(table, key) for key in range(99)] == [str(key) for key in range(99)]
    assert table == {99: "99"}
    assert take(table, 99) == "99"
    assert sys.getsizeof(table) == sys.getsizeof({})


def test_what_is_not_there_is_none() -> None:
    table = {1: "a"}
    assert take(table, 2) is None
    assert table == {1: "a"}
