"""The checker finds each kind of broken promise, and none where there is none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from interop.testbed.checker.check import check
from interop.testbed.checker.violation import Violation
from interop.testbed.faults import Fault, FaultKind
from interop.testbed.history.records import (
    Accepted,
    Delivered,
    History,
    Lived,
    Log,
    Neighbors,
    Parted,
    Refused,
    Usage,
)
from interop.testbed.scenario import Promises
from tests.testbed.histories import DURATION, HOSTS, add, drop, history, is_delivery

PROMISES = Promises(deadline=5.0, heal=10.0, notice=5.0, notice_stop=8.0, slowdown=3.0)
CUT = Fault(kind=FaultKind.CUT, at=30.0, lasts=25.0, hosts=(3,))
KILL = Fault(kind=FaultKind.KILL, at=30.0, lasts=5.0, hosts=(3,))


def found(made: History, promises: Promises = PROMISES) -> list[Violation]:
    return check(made, promises)


def broken(made: History, promises: Promises = PROMISES) -> set[str]:
    return {violation.promise for violation in found(made, promises)}


def parted(made: History, fault: Fault) -> History:
    """`made`, with the victims of `fault` nobody's neighbours from a second after its begin to a
    second after its end."""
    begin, end = fault.at + 1, fault.end + 1
    for host in range(HOSTS):
        rest = frozenset(range(HOSTS)) - {host}
        less = frozenset[int]() if host in fault.hosts else rest - set(fault.hosts)
        add(made, Neighbors(begin, host, 0, less), Neighbors(end, host, 0, rest))
    return made


@pytest.mark.parametrize("kind", ["episub", "sds", "py"])
def test_a_run_without_faults_breaks_nothing(kind: str) -> None:
    assert found(history(kind=kind)) == []


@pytest.mark.parametrize("fault", [CUT, KILL, replace(KILL, kind=FaultKind.STOP)])
def test_a_fault_that_does_no_harm_breaks_nothing(fault: Fault) -> None:
    assert found(parted(history(fault), fault)) == []


def test_a_message_that_does_not_come() -> None:
    made = history()
    drop(made, is_delivery("m1-2", 3))
    [violation] = found(made)
    assert (violation.promise, violation.time) == ("reach", 21.0)
    assert "m1-2 of host 1 was due at host 3" in violation.text
    assert "never" in violation.text


def test_a_message_that_comes_late() -> None:
    made = history()
    drop(made, is_delivery("m1-2", 3))
    add(made, Delivered(26.5, 3, 0, "m1-2"))
    assert broken(made) == {"reach"}


def test_what_a_fault_excuses() -> None:
    made = parted(history(CUT), CUT)
    # Published more than `late` before the end, on the other side, and never delivered there.
    cut = replace(PROMISES, late=5.0)
    drop(made, is_delivery("m3-3", 0))
    assert found(made, cut) == []
    # On its own side.
    drop(made, is_delivery("m1-4", 2))
    assert broken(made, cut) == {"reach"}


def test_a_wrong_clock_and_a_slow_link_excuse_nothing() -> None:
    for kind in (FaultKind.CLOCK, FaultKind.SLOW, FaultKind.DISK):
        made = history(replace(CUT, kind=kind))
        drop(made, is_delivery("m1-4", 3))
        assert broken(made) == {"reach"}


def test_a_process_that_is_killed_owes_nothing_until_it_is_back() -> None:
    made = parted(history(KILL), KILL)
    add(made, Lived(30.0, 3, 0, "kill"), Lived(47.0, 3, 1, "ready"))
    drop(made, is_delivery("m0-4", 3))
    assert found(made) == []
    drop(made, is_delivery("m0-6", 3))
    assert broken(made) == {"reach"}


def test_a_publisher_that_dies_at_once_promises_nothing() -> None:
    fault = replace(KILL, at=23.5)
    made = parted(history(fault), fault)
    drop(made, is_delivery("m3-2"))
    assert found(made) == []
    later = replace(KILL, at=26.0)
    made = parted(history(later), later)
    drop(made, is_delivery("m3-2"))
    assert broken(made) == {"reach"}


def test_what_was_published_before_the_end_of_a_cut_has_to_cross_it() -> None:
    made = parted(history(CUT), CUT)
    drop(made, is_delivery("m3-4", 0))
    [violation] = found(made)
    assert (violation.promise, violation.time) == ("cross", 43.0)


def test_a_host_that_moved_and_gets_nothing_for_a_while() -> None:
    move = Fault(kind=FaultKind.MOVE, at=30.0, lasts=25.0, hosts=(3,))
    late = replace(PROMISES, first=9.0)
    made = history(move)
    assert found(made, late) == []
    for host in range(3):
        drop(made, is_delivery(f"m{host}-3", 3))
    assert [(v.promise, v.time) for v in found(made, late)] == [("first", 30.0)]


def test_a_message_that_comes_twice() -> None:
    made = history()
    add(made, Delivered(90.0, 3, 0, "m1-2"), Delivered(95.0, 3, 0, "m1-2"))
    assert [v.promise for v in found(made)] == ["once"]
    assert "3 times" in found(made)[0].text


def test_a_message_may_come_again_to_the_next_session() -> None:
    made = parted(history(KILL), KILL)
    add(made, Delivered(90.0, 3, 1, "m1-2"))
    assert found(made) == []


def test_a_message_that_nobody_published() -> None:
    made = history()
    add(made, Delivered(50.0, 3, 0, "m1-77"))
    assert broken(made) == {"invented"}


def test_publishing_that_waits() -> None:
    made = history()
    made.asked["m1-2"] = (12.0, 1)
    # Latency counts from then on, too, but the promise about it is only for faults.
    assert broken(made) == {"wait"}


def test_publishing_that_waits_for_the_first_neighbour() -> None:
    """A process that starts within a cut has none: the time counts from the first one."""
    for published, violated in ((91.0, False), (99.0, True)):
        made = history()
        lives = (Lived(30.0, 1, 0, "kill"), Lived(31.0, 1, 1, "start"), Lived(32.0, 1, 1, "ready"))
        add(made, *lives, Neighbors(90.0, 1, 1, frozenset({0, 2, 3})))
        drop(made, lambda event: isinstance(event, Accepted) and event.message == "m1-7")
        add(made, Accepted(published, 1, 1, "m1-7", 71.0))
        assert ("wait" in broken(made)) is violated


def test_publishing_that_never_ends_unless_it_is_refused() -> None:
    made = history()
    drop(made, lambda event: isinstance(event, Accepted) and event.message == "m1-2")
    drop(made, is_delivery("m1-2"))
    assert broken(made) == {"wait"}
    add(made, Refused(22.0, 1, 0, "m1-2", "too large"))
    assert found(made) == []


def test_a_neighbour_that_goes_without_a_reason() -> None:
    made = history()
    add(made, Parted(22.0, 1, 0, 2, "failed"))
    assert found(made) == []
    add(made, Parted(23.0, 1, 0, 3, ""))
    assert broken(made) == {"reason"}


def test_a_peer_that_falls_silent_and_stays_a_neighbour() -> None:
    for fault in (CUT, replace(CUT, kind=FaultKind.STOP)):
        made = history(fault)
        assert {v.promise for v in found(made)} == {"notice"}
        # Host 3 counts the others, and each of them counts host 3; one that is stopped does
        # nothing.
        assert len(found(made)) == (4 if fault is CUT else 3)
        assert {v.time for v in found(made)} == {fault.at + (5.0 if fault is CUT else 8.0)}


def test_one_way_the_side_that_hears_nothing_has_to_notice() -> None:
    fault = replace(CUT, kind=FaultKind.ONE_WAY)
    assert len(found(history(fault))) == 3


def test_an_overlay_that_stays_in_two() -> None:
    made = parted(history(CUT), CUT)
    drop(made, lambda event: isinstance(event, Neighbors) and event.time > CUT.end)
    assert broken(made) == {"connected"}


def test_a_side_of_a_cut_that_stays_in_two() -> None:
    made = parted(history(CUT), CUT)
    drop(made, lambda event: isinstance(event, Neighbors) and 0 < event.time < CUT.end)
    add(made, *(Neighbors(CUT.at + 1, host, 0, frozenset()) for host in range(HOSTS)))
    assert [str(v) for v in found(made)] == [
        "connected at 40.0 s: the overlay is in parts 10 s after the begin of the cut of 3 from "
        "30 s to 55 s: [0], [1], [2]"
    ]


def test_views_that_stay_asymmetric() -> None:
    made = parted(history(CUT), CUT)
    # Host 0 forgets host 1 for good.
    drop(made, lambda e: isinstance(e, Neighbors) and e.host == 0 and e.time > CUT.end)
    add(made, Neighbors(CUT.end + 0.1, 0, 0, frozenset({2, 3})))
    assert broken(made) == {"symmetric"}


def test_what_comes_out_of_causal_order() -> None:
    made = history(kind="sds")
    # m2-1 was sent after its author had m1-1.
    drop(made, is_delivery("m1-1", 3))
    add(made, Delivered(30.0, 3, 0, "m1-1"))
    assert "causal" in broken(made)
    # The same without SDS promises no order.
    made.kinds = ["py"] * HOSTS
    assert "causal" not in broken(made)


def test_a_message_that_was_shown_after_the_next_was_sent_is_not_in_its_past() -> None:
    made = history(kind="sds")
    made.events = [
        replace(event, after=0) if isinstance(event, Accepted) else event for event in made.events
    ]
    drop(made, is_delivery("m1-1", 3))
    add(made, Delivered(12.5, 3, 0, "m1-1"))
    assert found(made) == []


def test_a_gap_that_the_application_was_told_of_is_not_out_of_order() -> None:
    made = history(kind="sds")
    drop(made, is_delivery("m2-1", 3))
    drop(made, is_delivery("m1-1", 3))
    add(made, Delivered(12.05, 3, 0, "m2-1", ("id of m1-1",)), Delivered(14.0, 3, 0, "m1-1"))
    assert found(made) == []


def test_a_participant_without_a_log() -> None:
    made = history(kind="sds")
    del made.logs[2]
    assert [v.promise for v in found(made)] == ["lost"]


@pytest.mark.parametrize(
    ("change", "promise"),
    [
        (lambda log: tuple(m for m in log if m != "m1-1"), "lost"),
        (lambda log: log[::-1], "order"),
        (lambda log: (*log, "m1-1"), "order"),
    ],
    ids=["lacks what was accepted", "has another order", "has a message twice"],
)
def test_a_log_that_is_not_as_the_others(change: Any, promise: str) -> None:
    made = history(kind="sds")
    made.logs[2] = Log(2, change(made.logs[2].messages))
    assert broken(made) == {promise}


def test_a_process_that_ends_by_itself() -> None:
    made = history()
    add(made, Lived(50.0, 3, 0, "death"), Lived(50.5, 3, 1, "ready"))
    assert broken(made) == {"death"}
    made.faults = [replace(KILL, kind=FaultKind.MEMORY, at=45.0, lasts=10.0)]
    assert broken(made) == set()


@pytest.mark.parametrize(
    ("usage", "what"),
    [
        (Usage(DURATION, 3, 0, 90 << 20, 37, 3, 1.0), "descriptors"),
        (Usage(DURATION, 3, 0, 90 << 20, 20, 12, 1.0), "threads"),
        (Usage(DURATION, 3, 0, 131 << 20, 20, 3, 1.0), "memory"),
    ],
)
def test_a_process_that_holds_more_in_the_end(usage: Usage, what: str) -> None:
    made = parted(history(KILL), KILL)
    made.usage.append(usage)
    [violation] = found(made)
    assert violation.promise == "rest"
    assert what in violation.text


def test_others_that_are_slow_once_a_fault_is_noticed() -> None:
    made = parted(history(CUT), CUT)
    drop(made, is_delivery("m0-4", 1))
    add(made, Delivered(44.0, 1, 0, "m0-4"))
    assert broken(made) == {"slowdown"}
    assert broken(made, replace(PROMISES, slowdown=0.0)) == set()
