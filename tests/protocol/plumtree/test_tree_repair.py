"""Announced and missing messages, and the GRAFTs that fetch them (E34-E37)."""

from __future__ import annotations

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import Deliver, DownReason, DropReason, NeighborDown
from episub_router.protocol.messages import MAX_IDS, Gossip, Graft
from episub_router.protocol.params import EpisubParams
from episub_router.protocol.plumtree.message_cache import MAX_HOLDERS, VALIDATION_TIMEOUT
from episub_router.protocol.plumtree.missing_messages import (
    LOST_AFTER,
    MAX_EACH,
    MAX_MISSING,
    MAX_RETRANSMISSIONS,
)
from episub_router.protocol.types import NEVER
from tests.protocol.helpers import Branch, drops, ihave, sent

PATIENCE = 0.5
"""Seconds that a neighbour without a known RTT has to answer a GRAFT."""


def test_what_came_by_itself_leaves_room_for_more() -> None:
    """E34: no timer runs while nothing is missing."""
    branch = Branch("parent", lazy=["l"])
    for window in range(2):
        for id in range(2 * MAX_EACH):
            assert branch.receive("l", ihave((window, id))) == []
            branch.receive("parent", Gossip((window, id), 1, "payload"))
        branch.flush()
        branch.wait(0.5)
        assert branch.machine.next_deadline() == NEVER
    assert branch.machine.missing == 0


def test_what_is_announced_and_does_not_come_is_fetched() -> None:
    """E34, E35: after a short wait the announcer is asked, and its link becomes eager when it
    answers; an announcer without the message would leave the link without use."""
    branch = Branch(lazy=["l"])
    assert branch.receive("l", ihave("m")) == []
    due = branch.machine.next_deadline()
    assert 0.01 <= due <= 0.1
    assert branch.wait(due - 0.001) == []
    assert sent(branch.wait(0.001)) == [("l", Graft(("m",)))]
    assert branch.lazy == {"l"}
    branch.receive("l", Gossip("m", 1, "payload"))
    assert (branch.eager, branch.lazy) == ({"l"}, set())


def test_what_comes_in_time_is_not_fetched_and_leaves_no_timer() -> None:
    """E34: one background timer, at rest when nothing is missing."""
    branch = Branch("e", lazy=["l"])
    branch.receive("l", ihave("m", "n"))
    due = branch.machine.next_deadline()
    branch.receive("e", Gossip("m", 1, "payload"))
    assert branch.machine.missing == 1
    assert branch.machine.next_deadline() == due
    branch.receive("e", Gossip("n", 1, "payload"))
    assert branch.machine.missing == 0
    assert sent(branch.flush()) == []
    assert branch.machine.next_deadline() == NEVER


def test_one_timer_for_all_missing_messages() -> None:
    """E34: each has a time of its own; later announcements put no earlier one off."""
    branch = Branch(lazy=["l"])
    asked: dict[object, float] = {}
    branch.receive("l", ihave("m0"))
    wait = branch.machine.next_deadline()
    step = wait / 4
    for n in range(1, 20):
        for _, graft in sent(branch.wait(step), Graft):
            asked.update(dict.fromkeys(graft.ids, branch.now))
        branch.receive("l", ihave(f"m{n}"))
    assert asked["m0"] == pytest.approx(wait, abs=step)
    # Beside one that is due, those that nearly are go along.
    for n in range(1, 12):
        assert n * step < asked[f"m{n}"] <= n * step + wait + step


def test_known_messages_are_not_missing() -> None:
    """E34: an announcement of what we have is nothing new."""
    branch = Branch("e", lazy=["l"])
    branch.publish("m")
    branch.receive("l", ihave("m"))
    assert branch.machine.missing == 0


def test_first_announcer_is_asked_first_and_then_the_next() -> None:
    """E35, E37: each time the patience ends without the message, another announcer is asked, in
    the order of their announcements, and the first again after the last."""
    branch = Branch(lazy=["a", "b", "c"])
    for peer in "bca":
        branch.receive(peer, ihave("m"))
    asked = []
    for peer in "bcab":
        branch.wait(branch.machine.next_deadline() - branch.now - 0.001)
        asked += sent(branch.wait(0.001))
        assert asked[-1] == (peer, Graft(("m",)))
    assert len(asked) == 4


def test_patience_follows_the_round_trip() -> None:
    """E37: a near neighbour has two round trips and 50 ms to answer; nobody has longer than
    half a second, which is for neighbours of which nothing is known."""
    for rtt, patience in [(0.02, 0.09), (0.1, 0.25), (2.0, PATIENCE), (None, PATIENCE)]:
        branch = Branch(lazy=["a", "b"])
        if rtt is not None:
            branch.rtts["a"] = rtt
        branch.receive("a", ihave("m"))
        branch.receive("b", ihave("m"))
        first = branch.machine.next_deadline()
        assert sent(branch.wait(first)) == [("a", Graft(("m",)))]
        assert branch.machine.next_deadline() == pytest.approx(first + patience)
        assert sent(branch.wait(patience + 0.001)) == [("b", Graft(("m",)))]


def test_announcers_that_are_gone_are_not_asked() -> None:
    """E37: a lost neighbour's turn goes to the next."""
    branch = Branch("e", lazy=["a", "b"])
    branch.receive("a", ihave("m"))
    branch.receive("b", ihave("m"))
    branch.handle(NeighborDown("a", DownReason.FAILED))
    assert {peer for peer, _ in sent(branch.wait(3))} == {"b"}


def test_what_was_asked_of_a_lost_neighbour_is_asked_of_the_next_at_once() -> None:
    """E37: its patience hasn't ended, but it can't answer any more. What another neighbour was
    asked for is left to that one."""
    branch = Branch("e", lazy=["a", "b"])
    branch.receive("a", ihave("m"))
    branch.receive("b", ihave("m", "n"))
    wait = branch.machine.next_deadline()
    assert dict(sent(branch.wait(wait))) == {"a": Graft(("m",)), "b": Graft(("n",))}
    branch.handle(NeighborDown("a", DownReason.FAILED))
    assert branch.machine.next_deadline() == branch.now
    assert sent(branch.machine.handle_timer(branch.now)) == [("b", Graft(("m",)))]


def test_other_missing_messages_of_the_same_announcer_ride_along() -> None:
    """E35: though they are not due yet, they are asked for in the same GRAFT if they nearly are;
    those of another announcer are not."""
    branch = Branch(lazy=["a", "b"])
    branch.receive("a", ihave("m"))
    due = branch.machine.next_deadline()
    branch.wait(due / 2)
    branch.receive("a", ihave("n"))
    branch.receive("b", ihave("o"))
    assert sent(branch.wait(due / 2)) == [("a", Graft(("m", "n")))]
    assert sent(branch.wait(due / 2)) == [("b", Graft(("o",)))]


def test_missing_stays_missing_until_it_is_lost() -> None:
    """E37: LOST_AFTER seconds after its announcement it counts as lost at its next turn, is
    counted once, and nothing is left."""
    branch = Branch(lazy=["a"])
    branch.receive("a", ihave("m"))
    effects = branch.wait(LOST_AFTER)
    assert branch.machine.missing == 1
    assert drops(effects) == []
    assert len(sent(effects, Graft)) == 4  # after 0.02, 0.5, 1.5 and 3.5 s
    effects = branch.wait(8 * PATIENCE)
    assert drops(effects) == [DropReason.MESSAGE_LOST]
    assert branch.machine.missing == 0
    assert branch.machine.next_deadline() == NEVER


def test_a_lost_message_is_still_welcome() -> None:
    """E37: late is better than never."""
    branch = Branch(lazy=["a"])
    branch.receive("a", ihave("m"))
    branch.wait(60)
    assert any(isinstance(e, Deliver) for e in branch.receive("a", Gossip("m", 1, "payload")))


def test_graft_gets_the_link_and_the_messages() -> None:
    """E36: the sender becomes eager and gets what is still cached, with the hops it took here
    plus one; what isn't cached is counted."""
    branch = Branch("e", lazy=["l"])
    branch.publish("m", 7)
    branch.receive("e", Gossip("n", 3, "payload", 7))
    effects = branch.receive("l", Graft(("m", "gone", "n")))
    assert sent(effects) == [
        ("l", Gossip("m", 1, "payload m", 7)),
        ("l", Gossip("n", 4, "payload", 7)),
    ]
    assert drops(effects) == [DropReason.GRAFT_NOT_CACHED]
    assert branch.eager == {"e", "l"}


def test_a_message_is_sent_to_one_peer_only_so_often() -> None:
    """E36: GRAFT can't be used to make us send without end; other peers still get it."""
    branch = Branch("a", "b")
    branch.publish("m")
    effects = [e for _ in range(50) for e in branch.receive("a", Graft(("m",)))]
    assert len(sent(effects)) == MAX_RETRANSMISSIONS
    assert set(drops(effects)) == {DropReason.GRAFT_REPEATED}
    assert len(sent(branch.receive("b", Graft(("m",))))) == 1


def test_lists_of_ids_are_bounded() -> None:
    """E35: what goes beyond one message is split."""
    branch = Branch(lazy=["a"])
    branch.receive("a", ihave(*range(MAX_IDS)))
    branch.receive("a", ihave(*range(MAX_IDS, 2 * MAX_IDS)))
    branch.receive("a", ihave(*range(2 * MAX_IDS, 2 * MAX_IDS + 2)))
    grafts = [graft for _, graft in sent(branch.wait(PATIENCE), Graft)]
    assert [len(graft.ids) for graft in grafts] == [MAX_IDS, MAX_IDS, 2]


def test_announcements_are_bounded() -> None:
    """E34: for each peer; what is refused is counted, and a peer that floods doesn't use up what
    the others may announce."""
    branch = Branch(lazy=["flood", "b", "c", "d", "e"])
    assert announce(branch, "flood", MAX_EACH + 80) == [DropReason.MISSING_FULL] * 80
    for peer in ("b", "c", "d", "e"):
        assert drops(branch.receive(peer, ihave("m"))) == []
    asked = {peer for peer, graft in sent(branch.wait(4), Graft) if "m" in graft.ids}
    assert asked == {"b", "c", "d", "e"}


def test_the_announcers_of_a_message_are_bounded() -> None:
    """E34, E37: the first MAX_HOLDERS are asked in turn, so that liars among them only cost
    their patience; a peer that announces twice is one of them once."""
    peers = [f"p{n}" for n in range(MAX_HOLDERS + 3)]
    branch = Branch(lazy=peers)
    branch.rtts.update(dict.fromkeys(peers, 0.001))
    for peer in [peers[0], *peers]:
        assert drops(branch.receive(peer, ihave("m"))) == []
    asked = [peer for peer, _ in sent(branch.wait(4), Graft)]
    assert asked[: MAX_HOLDERS + 2] == peers[:MAX_HOLDERS] + peers[:2]
    assert set(asked) == set(peers[:MAX_HOLDERS])


def announce(branch: Branch, peer: str, count: int) -> list[DropReason]:
    """`peer` announces `count` messages that there are not; what is refused."""
    ids = [f"{peer} at {branch.now} {n}" for n in range(count)]
    lists = [ids[start : start + MAX_IDS] for start in range(0, count, MAX_IDS)]
    return [reason for some in lists for reason in drops(branch.receive(peer, ihave(*some)))]


def test_the_missing_list_is_bounded() -> None:
    """E34: in all, and for each peer, whoever else has filled it."""
    peers = [f"p{n}" for n in range(MAX_MISSING // MAX_EACH + 1)]
    branch = Branch(lazy=peers)
    refused = [len(announce(branch, peer, MAX_EACH)) for peer in peers]
    assert sum(refused) == len(peers) * MAX_EACH - MAX_MISSING
    assert refused[:-1] == [0] * (len(peers) - 1)
    assert branch.machine.missing == MAX_MISSING
    most = EpisubParams().membership.active_bound
    assert most * MAX_EACH <= MAX_MISSING


def test_each_announcer_is_asked_before_a_message_is_lost() -> None:
    """E37: however long the others before it were waited for."""
    liars = [f"liar {n}" for n in range(11)]
    branch = Branch(lazy=[*liars, "honest"])
    for peer in [*liars, "honest"]:
        branch.receive(peer, ihave("m"))
    effects = branch.wait(LOST_AFTER)
    assert "honest" not in [peer for peer, _ in sent(effects, Graft)]
    effects = branch.wait(3 * LOST_AFTER)
    assert [peer for peer, _ in sent(effects, Graft)][-1] == "honest"
    assert drops(effects) == [DropReason.MESSAGE_LOST]


def test_bad_copies_do_not_suppress_a_message() -> None:
    """E34: a copy in validation puts the GRAFT off, and copies that never prove valid can do so
    only for as long as one validation may take."""
    branch = Branch(lazy=["honest", "liar"])
    branch.receive("honest", ihave("m"))
    grafts: list[object] = []
    while branch.now < 2 * VALIDATION_TIMEOUT and not grafts:
        branch.handle(ev.PayloadArrived("liar", "m", 1))
        grafts += sent(branch.wait(0.1), Graft)
    assert grafts == [("honest", Graft(("m",)))]
    assert branch.now > VALIDATION_TIMEOUT


def test_a_flood_of_invented_ids_leaves_room_for_others() -> None:
    """E34: whatever one peer has in the list gives way to what others announce."""
    branch = Branch(lazy=["liar", "honest"])
    while branch.now < LOST_AFTER:
        announce(branch, "liar", 500)
        branch.wait(0.2)
    branch.receive("honest", ihave("m"))
    assert ("honest", Graft(("m",))) in sent(branch.wait(1.0), Graft)


# How long to wait for what a neighbour announced


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


def test_what_comes_late_from_all_is_not_asked_of_each() -> None:
    """Where hosts are overloaded: a copy from each announcer would be load, too."""
    branch = Branch("parent", *"abcd")
    for number in range(40):
        announce_to(branch, "abcd", number)
        branch.wait(1.5)
        branch.receive("parent", Gossip(number, 1, "payload"))
    announce_to(branch, "abcd", "m")
    assert len(sent(branch.wait(1.5), Graft)) == 1


def announce_to(branch: Branch, peers: str, id: object) -> None:
    for peer in peers:
        branch.receive(peer, ihave(id))


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
    announce_to(branch, "xya", "n")
    while ("a", Graft(("n",))) not in sent(branch.wait(0.01), Graft):
        assert branch.now < start + 1.2
