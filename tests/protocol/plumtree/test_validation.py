"""Payloads that a driver validates before they count (E31, E32, E34)."""

from __future__ import annotations

from episub_router.protocol import events as ev
from episub_router.protocol.effects import Deliver, DownReason, DropReason, NeighborDown
from episub_router.protocol.messages import Gossip, Graft, Prune
from episub_router.protocol.params import BroadcastParams
from episub_router.protocol.plumtree.message_cache import (
    MAX_VALIDATING,
    VALIDATION_TIMEOUT,
    Copy,
    MessageCache,
)
from episub_router.protocol.types import NEVER
from tests.protocol.helpers import Branch, drops, ihave, sent


def accepted(branch: Branch, peer: str, id: object = "m", size: int = 0) -> list:  # type: ignore[type-arg]
    return branch.handle(ev.PayloadAccepted(peer, id, "payload", size))


def test_nothing_happens_before_the_payload_proves_valid() -> None:
    """E32: an arrived payload is neither delivered nor pushed on, and its sender stays what it
    was; then all of that happens, with the hop count of the copy that was accepted."""
    branch = Branch("a", lazy=["b"])
    assert branch.handle(ev.PayloadArrived("b", "m", 3)) == []
    assert (branch.eager, branch.lazy) == ({"a"}, {"b"})
    effects = accepted(branch, "b", size=7)
    assert effects[0] == Deliver("m", "payload", "b", 3)
    assert sent(effects) == [("b", Graft()), ("a", Gossip("m", 4, "payload", 7))]
    assert branch.eager == {"a", "b"}


def test_a_second_copy_is_a_duplicate_only_once_the_first_proved_valid() -> None:
    """E31: until then its sender may be the only honest one; afterwards it is pruned, and is not
    pushed what it has."""
    branch = Branch("a", "b", "c")
    branch.handle(ev.PayloadArrived("a", "m", 1))
    assert branch.handle(ev.PayloadArrived("b", "m", 2)) == []
    effects = accepted(branch, "a")
    assert sent(effects) == [("c", Gossip("m", 2, "payload")), ("b", Prune())]
    assert (branch.eager, branch.lazy) == ({"a", "c"}, {"b"})


def test_the_copy_that_proves_valid_first_decides() -> None:
    """E32: validation may end in any order."""
    branch = Branch("a", "b")
    branch.handle(ev.PayloadArrived("a", "m", 1))
    branch.handle(ev.PayloadArrived("b", "m", 5))
    effects = accepted(branch, "b")
    assert effects[0] == Deliver("m", "payload", "b", 5)
    assert sent(effects) == [("a", Prune())]


def test_accepted_twice_is_delivered_once() -> None:
    """E32: a driver may report both copies as valid."""
    branch = Branch("a", "b")
    branch.handle(ev.PayloadArrived("a", "m", 1))
    branch.handle(ev.PayloadArrived("b", "m", 1))
    accepted(branch, "a")
    assert accepted(branch, "b") == []


def test_copies_after_the_message_is_known_are_duplicates_at_once() -> None:
    """E31."""
    branch = Branch("a", "b")
    branch.publish("m")
    assert sent(branch.handle(ev.PayloadArrived("b", "m", 2))) == [("b", Prune())]


def test_announced_messages_in_validation_are_not_fetched() -> None:
    """E34: what has arrived isn't missing; if it proves invalid, it is again."""
    branch = Branch("a", lazy=["l"])
    branch.receive("l", ihave("m"))
    branch.handle(ev.PayloadArrived("a", "m", 1))
    assert sent(branch.wait(5)) == []
    accepted(branch, "a")
    assert branch.machine.missing == 0
    branch.receive("l", ihave("n"))
    branch.handle(ev.PayloadArrived("a", "n", 1))
    grafts = sent(branch.wait(VALIDATION_TIMEOUT + 2), Graft)
    assert grafts[0] == ("l", Graft(("n",)))


def test_a_rejected_copy_ceases_to_count_at_once() -> None:
    """E34: a forged copy under a true id delays the good one by as long as it takes to find out."""
    branch = Branch("a", "b", lazy=["l"])
    branch.receive("l", ihave("m"))
    branch.handle(ev.PayloadArrived("a", "m", 1))
    branch.handle(ev.PayloadArrived("b", "m", 1))
    assert sent(branch.wait(2)) == []
    branch.handle(ev.PayloadRejected("a", "m", forged=True))
    assert sent(branch.wait(0)) == []
    branch.handle(ev.PayloadRejected("b", "m"))
    assert branch.machine.pending == 0
    assert sent(branch.wait(0)) == [("l", Graft(("m",)))]


def test_a_rejection_of_what_is_not_in_validation_does_nothing() -> None:
    branch = Branch("a", lazy=["l"])
    for forged in (False, True):
        assert branch.handle(ev.PayloadRejected("x", "m", forged)) == []
    branch.handle(ev.PayloadArrived("a", "m", 1))
    assert branch.handle(ev.PayloadRejected("x", "m")) == []
    assert branch.machine.pending == 1


def test_what_is_never_said_to_be_valid_is_forgotten() -> None:
    """A driver need not report rejections: time ends what is in validation."""
    branch = Branch("a")
    branch.handle(ev.PayloadArrived("a", "bad", 1))
    branch.now += VALIDATION_TIMEOUT
    branch.handle(ev.PayloadArrived("a", "m", 1))
    assert branch.machine.pending == 1
    assert branch.eager == {"a"}


def test_payloads_in_validation_are_bounded() -> None:
    """A flood is counted, and costs no message that proves valid all the same."""
    branch = Branch("a")
    flood = range(MAX_VALIDATING + 90)
    effects = [e for n in flood for e in branch.handle(ev.PayloadArrived("a", n, 1))]
    assert branch.machine.pending == MAX_VALIDATING
    assert drops(effects) == [DropReason.PENDING_FULL] * 90
    dropped = MAX_VALIDATING + 50
    effects = accepted(branch, "a", dropped)
    assert effects[0] == Deliver(dropped, "payload", "a", 1)


def test_copies_of_one_message_are_bounded() -> None:
    """However many strangers send the same payload."""
    messages = MessageCache(BroadcastParams())
    for n in range(1000):
        assert messages.add_copy(f"x{n}", "m", Copy(1, 0.0))
    assert len(messages.take("m").copies or {}) < 100
    branch = Branch("a", "b")
    for n in range(1000):
        branch.handle(ev.PayloadArrived(f"x{n}", "m", 1))
    effects = accepted(branch, "x0")
    assert [peer for peer, _ in sent(effects)] == ["a", "b"]


def test_payload_of_a_stranger_is_pushed_on_and_changes_no_tree() -> None:
    """E32: a publisher that is no member reaches the topic all the same."""
    branch = Branch("a", "b")
    branch.handle(ev.PayloadArrived("x", "m", 1))
    effects = accepted(branch, "x")
    assert [peer for peer, _ in sent(effects, Gossip)] == ["a", "b"]
    assert branch.eager == {"a", "b"}
    assert not branch.lazy
    branch.wait(1)
    assert branch.machine.next_deadline() == NEVER


def test_what_was_given_up_while_a_copy_is_in_validation_is_not_asked_for() -> None:
    """E37: neither when the announcer is gone, nor once the copy has proved valid."""
    branch = Branch("e", lazy=["a"])
    branch.receive("a", ihave("m"))
    branch.wait(4.9)
    branch.handle(ev.PayloadArrived("e", "m", 1))
    assert DropReason.MESSAGE_LOST in drops(branch.wait(5.5))
    branch.handle(NeighborDown("a", DownReason.FAILED))
    assert accepted(branch, "e")[0] == Deliver("m", "payload", "e", 1)
    assert sent(branch.wait(30), Graft) == []
    assert branch.machine.missing == 0
