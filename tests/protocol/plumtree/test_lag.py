"""How long to wait for what a neighbour announced before asking for it (E34)."""

from __future__ import annotations

from episub_router.protocol.messages import Gossip, Graft
from tests.protocol.helpers import Branch, ihave, sent


def wait_for(branch: Branch, peer: str, id: object) -> float:
    """Seconds from the announcement of `peer` until it is asked."""
    start = branch.now
    branch.receive(peer, ihave(id))
    while not sent(branch.wait(0.001), Graft):
        pass
    branch.receive(peer, Gossip(id, 1, "payload"))
    return branch.now - start


def teach(branch: Branch, peer: str, lag: float, messages: int = 40) -> None:
    """What `peer` announces comes from "parent" `lag` seconds later."""
    for number in range(messages):
        id = (peer, branch.now, number)
        branch.receive(peer, ihave(id))
        branch.wait(lag)
        branch.receive("parent", Gossip(id, 1, "payload"))
        branch.wait(1)


def test_at_first_the_wait_is_short() -> None:
    assert 0.02 <= wait_for(Branch("parent", "a"), "a", "m") <= 0.04


def test_a_constant_lag_is_waited_for() -> None:
    for lag in (0.05, 0.3):
        branch = Branch("parent", "a")
        teach(branch, "a", lag)
        assert lag < wait_for(branch, "a", "m") <= 1.3 * lag + 0.01


def test_a_neighbour_that_announces_late_is_asked_soon() -> None:
    branch = Branch("parent", "a")
    teach(branch, "a", 0.3)
    for number in range(100):
        branch.receive("parent", Gossip(number, 1, "payload"))
        branch.receive("a", ihave(number))
    assert wait_for(branch, "a", "m") <= 0.02


def test_the_wait_is_bounded() -> None:
    branch = Branch("parent", "a")
    teach(branch, "a", 4.0)
    assert wait_for(branch, "a", "m") <= 0.7


def test_two_neighbours_teach_no_long_wait_for_what_others_announce() -> None:
    """Whether they announce long before anybody has the message, or answer late when asked."""
    branch = Branch("parent", "x", "y", "a")
    for liar in "xy":
        teach(branch, liar, 4.0)
        for number in range(10):
            branch.receive(liar, ihave((liar, number)))
            branch.wait(4.9)
            branch.receive(liar, Gossip((liar, number), 1, "payload"))
    assert wait_for(branch, "a", "m") <= 0.04
    start = branch.now
    for peer in "xya":
        branch.receive(peer, ihave("n"))
    while ("a", Graft(("n",))) not in sent(branch.wait(0.01), Graft):
        assert branch.now < start + 1.2
