"""How far a peer may be behind with what this node publishes."""

from __future__ import annotations

from episub_router.net.outbound.pace import FIRST_WINDOW, LEAST_WINDOW, MOST_WINDOW, Pace

SIZE = 1000


def fill(pace: Pace, now: float) -> int:
    """Send until there is no room, with a query as soon as one is due; how many went."""
    sent = 0
    while True:
        if pace.is_query_due(now):
            pace.note_query(now)
        if not pace.has_room(SIZE, now):
            return sent
        pace.note_sent(SIZE)
        sent += 1


def test_a_peer_that_reads_nothing_is_sent_no_more_than_a_window() -> None:
    pace = Pace()
    assert 0 < fill(pace, 0.0) <= FIRST_WINDOW // SIZE
    assert pace.behind <= FIRST_WINDOW
    assert not pace.has_room(SIZE, 10.0)


def test_its_list_makes_room_for_what_it_has_read() -> None:
    """That is what went out before the query, a quarter of the window."""
    pace = Pace()
    sent = fill(pace, 0.0)
    pace.note_read(2.0)
    assert sent / 5 < fill(pace, 2.0) < sent / 3


def test_a_message_larger_than_the_window_goes_to_a_peer_that_has_read_everything() -> None:
    pace = Pace()
    assert pace.has_room(2 * FIRST_WINDOW, 0.0)
    pace.note_sent(SIZE)
    assert not pace.has_room(2 * FIRST_WINDOW, 0.0)


def test_the_window_grows_where_lists_come_at_once() -> None:
    """And stays as it is where less is sent than it holds."""
    pace = Pace()
    for number in range(20):
        fill(pace, 10.0 * number)
        pace.note_read(10.0 * number + 0.1)
    assert pace.window == MOST_WINDOW
    small = Pace()
    for number in range(20):
        small.note_sent(FIRST_WINDOW // 3)
        small.note_query(float(number))
        small.note_read(number + 0.1)
    assert small.window == FIRST_WINDOW


def test_the_window_shrinks_where_lists_take_long() -> None:
    pace = Pace()
    for number in range(20):
        fill(pace, 10.0 * number)
        pace.note_read(10.0 * number + 5.0)
    assert pace.window == LEAST_WINDOW


def test_a_list_that_nobody_asked_for_says_nothing() -> None:
    pace = Pace()
    pace.note_sent(SIZE)
    pace.note_read(1.0)
    assert pace.behind > 0


def test_a_peer_that_never_answers_is_not_waited_for_any_longer_than_30_seconds() -> None:
    pace = Pace()
    fill(pace, 0.0)
    assert not pace.has_room(SIZE, 29.0)
    assert pace.has_room(SIZE, 31.0)
    assert pace.window == FIRST_WINDOW // 2


def test_queries_are_fewer_than_a_peer_takes() -> None:
    """Eight at once, and one in two seconds: it takes one a second of all kinds of NEIGHBOR."""
    pace = Pace()
    times = []
    for step in range(2000):
        now = step / 100
        pace.note_sent(FIRST_WINDOW // 2)
        if pace.is_query_due(now):
            pace.note_query(now)
            times.append(now)
            pace.note_read(now)
    assert len([now for now in times if now < 1.0]) == 8
    assert len(times) <= 8 + 20 / 2


def test_a_peer_that_answers_no_queries_has_read_everything() -> None:
    """One that isn't a neighbour, as where a topic is published to without joining it."""
    pace = Pace()
    pace.note_sent(SIZE)
    pace.forget()
    assert pace.behind == 0
