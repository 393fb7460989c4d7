"""Every missing delivery has a reason, and nothing else is called unexplained."""

from __future__ import annotations

from typing import Any

import pytest

from episub_router.sim.metrics.accounting import Accountant, Cut, Islands, MissingReason, Verdict
from episub_router.sim.records import Ending, Records, Session
from tests.sim.simulated import scenario_of, simulated

NOW, PATIENCE = 100.0, 10.0


def settle(session: Session, source: Session | None = None, **books: Any) -> Verdict:
    """The balance of a message that node 0 publishes and node 1, with `session`, hasn't got."""
    records = Records(2)
    records.sessions = [source or Session(0, started=0.0, joined=1.0), session]
    message = records.publish(NOW, source=0, size=10)
    records.deliver(NOW, message, 0, 0, -1)
    records.lost_on_the_way = books.pop("lost", {})
    accountant = Accountant(records, books.pop("cuts", []), books.pop("islands", []), PATIENCE)
    assert not books
    return accountant.settle(message)


def there(**changes: Any) -> Session:
    return Session(1, **{"started": 0.0, "joined": 1.0, **changes})


@pytest.mark.parametrize(
    ("session", "books", "reason"),
    [
        (there(), {}, MissingReason.UNEXPLAINED),
        (there(ended=105.0, ending=Ending.CRASHED), {}, MissingReason.CRASHED),
        (there(ended=105.0, ending=Ending.LEFT), {}, MissingReason.LEFT),
        (there(ended=115.0, ending=Ending.LEFT), {}, MissingReason.UNEXPLAINED),
        (there(), {"cuts": [Cut(90.0, 101.0, {1: 1})]}, MissingReason.PARTITIONED),
        (there(), {"cuts": [Cut(90.0, 101.0, {1: 1, 0: 1})]}, MissingReason.UNEXPLAINED),
        (there(), {"cuts": [Cut(90.0, 99.0, {1: 1})]}, MissingReason.UNEXPLAINED),
        (there(alone=[(99.0, 101.0)]), {}, MissingReason.ISOLATED),
        (there(alone=[(50.0, 60.0)]), {}, MissingReason.UNEXPLAINED),
        (there(joined=float("inf")), {}, MissingReason.ISOLATED),
        (there(), {"islands": [Islands(99.0, {0: 0, 1: 1})]}, MissingReason.UNREACHABLE),
        (there(), {"islands": [Islands(110.0, {0: 0, 1: 1})]}, MissingReason.UNREACHABLE),
        (there(), {"islands": [Islands(99.0, {0: 4, 1: 4})]}, MissingReason.UNEXPLAINED),
        (there(), {"lost": {(0, 1): None}}, MissingReason.LOST_IN_TRANSIT),
        (there(), {"lost": {(0, 0): None}}, MissingReason.UNEXPLAINED),
        (there(given_up=1), {}, MissingReason.GIVEN_UP),
    ],
)
def test_reasons(session: Session, books: dict[str, Any], reason: MissingReason) -> None:
    verdict = settle(session, **books)
    assert verdict.missing == {reason: 1}
    absent = reason in (MissingReason.CRASHED, MissingReason.LEFT)
    assert verdict.live == (1 if absent else 2)
    assert verdict.delivered == 1


def test_who_came_later_is_not_expected() -> None:
    assert settle(there(started=99.0, joined=101.0)).live == 1
    assert settle(there(started=0.0, joined=5.0, ended=50.0)).live == 1


def test_who_came_later_and_was_told_is_not_measured() -> None:
    records = Records(3)
    records.sessions = [Session(node, started=0.0, joined=1.0) for node in range(2)]
    records.sessions.append(Session(2, started=101.0, joined=102.0))
    message = records.publish(NOW, 0, 10)
    for node in range(3):
        records.deliver(NOW + node, message, node, node, 0)
    verdict = Accountant(records, [], [], PATIENCE).settle(message)
    assert (verdict.live, verdict.delivered, list(verdict.served)) == (2, 2, [1, 1, 0])


def test_nobody_is_blamed_where_the_source_was_alone() -> None:
    source = Session(0, started=0.0, joined=1.0, alone=[(90.0, float("inf"))])
    assert settle(there(), source).missing == {MissingReason.SOURCE_ISOLATED: 1}


def test_one_loss_that_was_declared_explains_one_message() -> None:
    records = Records(2)
    records.sessions = [Session(0, started=0.0, joined=1.0), there(given_up=1)]
    messages = [records.publish(NOW, 0, 10) for _ in range(2)]
    accountant = Accountant(records, [], [], PATIENCE)
    reasons = [accountant.settle(message).missing for message in messages]
    assert [MissingReason.GIVEN_UP in missing for missing in reasons] == [True, False]


def test_a_message_is_delivered_once() -> None:
    records = Records(2)
    message = records.publish(NOW, 0, 10)
    records.deliver(101.0, message, 1, 2, 0)
    records.deliver(102.0, message, 1, 5, 0)
    assert records.messages[message].hops[1] == 2
    assert records.repeated_deliveries == 1


@pytest.mark.parametrize("name", ["hyparview-failures", "plumtree-redundancy"])
def test_islands_are_looked_at_with_each_message_where_there_are_faults(name: str) -> None:
    settings = {"network.nodes": 20, "traffic.messages": 12, "traffic.settle": 1.0}
    only = "50 %" if name == "hyparview-failures" else ""
    simulation = simulated(scenario_of(name, settings, only))
    looked = [islands.time for islands in simulation.islands]
    assert looked == sorted(looked)
    looks = {shot.time for shot in simulation.snapshots}
    if simulation.scenario.faults:
        looks |= {message.published for message in simulation.records.messages}
    assert set(looked) == looks
