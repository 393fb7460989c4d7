"""How far a peer may be behind with what this node publishes."""

from __future__ import annotations

from episub_router.util.send_window import (
    FIRST_WINDOW,
    LEAST_WINDOW,
    MOST_WINDOW,
    SendWindow,
)

SIZE = 1000


def fill(window: SendWindow, now: float) -> int:
    """Send until there is no room, with a query as soon as one is due; how many went."""
    sent = 0
    while True:
        if window.is_query_due(now):
            window.note_query(now)
        if not window.has_room(SIZE, now):
            return sent
        window.note_sent(SIZE)
        sent += 1


def test_a_peer_that_reads_nothing_is_sent_no_more_than_a_window() -> None:
    window = SendWindow()
    assert 0 < fill(window, 0.0) <= FIRST_WINDOW // SIZE
    assert window.behind <= FIRST_WINDOW
    assert not window.has_room(SIZE, 10.0)


def test_its_list_makes_room_for_what_it_has_read() -> None:
    """That is what went out before the query, half of the window."""
    window = SendWindow()
    sent = fill(window, 0.0)
    window.note_read(2.0)
    assert sent / 3 < fill(window, 2.0) < 2 * sent / 3


def test_a_large_message_after_a_few_small_ones_finds_room_once_those_are_read() -> None:
    window = SendWindow()
    for _ in range(45):
        window.note_sent(SIZE)
    assert not window.is_query_due(0.0)
    assert not window.has_room(220_000, 0.0)
    assert window.is_query_due(0.0, 220_000)
    window.note_query(0.0)
    window.note_read(0.1)
    assert window.has_room(220_000, 0.1)


def test_a_message_larger_than_the_window_goes_to_a_peer_that_has_read_everything() -> None:
    window = SendWindow()
    assert window.has_room(2 * FIRST_WINDOW, 0.0)
    window.note_sent(SIZE)
    assert not window.has_room(2 * FIRST_WINDOW, 0.0)


def test_the_window_grows_where_lists_come_at_once() -> None:
    """And stays as it is where less is sent than it holds."""
    window = SendWindow()
    for number in range(20):
        fill(window, 10.0 * number)
        window.note_read(10.0 * number + 0.1)
    assert window.size == MOST_WINDOW
    small = SendWindow()
    for number in range(20):
        small.note_sent(FIRST_WINDOW // 3)
        small.note_query(float(number))
        small.note_read(number + 0.1)
    assert small.size == FIRST_WINDOW


def test_the_window_shrinks_where_lists_take_long() -> None:
    window = SendWindow()
    for number in range(20):
        fill(window, 10.0 * number)
        window.note_read(10.0 * number + 5.0)
    assert window.size == LEAST_WINDOW


def test_a_list_that_nobody_asked_for_says_nothing() -> None:
    window = SendWindow()
    window.note_sent(SIZE)
    window.note_read(1.0)
    assert window.behind > 0


def test_a_peer_that_never_answers_is_not_waited_for_any_longer_than_30_seconds() -> None:
    window = SendWindow()
    fill(window, 0.0)
    assert not window.has_room(SIZE, 29.0)
    assert window.has_room(100 * FIRST_WINDOW, 31.0)
    window.note_sent(FIRST_WINDOW)
    assert window.is_query_due(31.0)
    window.note_query(31.0)
    assert window.has_room(SIZE, 70.0)
    window.note_query(71.0)
    window.note_read(71.1)
    fill(window, 72.0)
    assert not window.has_room(SIZE, 72.0)


def test_queries_are_fewer_than_a_peer_takes() -> None:
    """Six at once, and one in four seconds: it takes one a second of all kinds of NEIGHBOR."""
    window = SendWindow()
    times = []
    for step in range(2000):
        now = step / 100
        window.note_sent(FIRST_WINDOW // 2)
        if window.is_query_due(now):
            window.note_query(now)
            times.append(now)
            window.note_read(now)
    assert len([now for now in times if now < 1.0]) == 6
    assert len(times) <= 6 + 20 / 4


def test_a_peer_that_answers_no_queries_has_read_everything() -> None:
    """One that isn't a neighbour, as where a topic is published to without joining it."""
    window = SendWindow()
    window.note_sent(SIZE)
    window.forget()
    assert window.behind == 0
