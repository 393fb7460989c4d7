"""The lazy queue and its timer (E30, E33)."""

from __future__ import annotations

from itertools import pairwise

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import DownReason, NeighborDown, NeighborUp
from episub_router.protocol.messages import (
    MAX_IDS,
    Gossip,
    Graft,
    IHave,
    LinkKind,
    MessageSummary,
    Prune,
)
from episub_router.protocol.plumtree.lazy_push import LAZY_DELAY, MAX_QUEUED
from episub_router.protocol.types import NEVER
from tests.protocol.helpers import Branch, ihave, sent


@pytest.mark.parametrize("why", ["grafted", "eager link lost"])
def test_peer_made_eager_is_still_told_what_it_wasn_t_pushed(why: str) -> None:
    """E33, E36, E40: what waits in the lazy queue was not pushed to those that were lazy then.
    After EagerRepair all of a peer's neighbours may promote it at once: without this, no one
    would tell it."""
    branch = Branch("e", lazy=["l"])
    branch.publish("m")
    if why == "grafted":
        branch.receive("l", Graft())
    else:
        branch.handle(NeighborDown("e", DownReason.FAILED))
    assert branch.eager >= {"l"}
    assert sent(branch.wait(1), IHave) == [("l", ihave("m"))]


def test_the_lazy_queue_goes_out_as_one_ihave_to_each_lazy_peer() -> None:
    """E30, E33: what was published or received since the last flush, aggregated, with the hops
    that a GOSSIP from here would carry; nobody else gets one."""
    branch = Branch("e", lazy=["a", "b"])
    branch.publish("m")
    branch.receive("e", Gossip("n", 3, "payload"))
    assert 0 < branch.machine.next_deadline() <= LAZY_DELAY
    told = IHave((MessageSummary("m", 1), MessageSummary("n", 4)))
    assert sent(branch.flush()) == [("a", told), ("b", told)]


def test_each_message_is_announced_once_and_the_timer_rests() -> None:
    """E33: no announcement again and again, no timer while nothing waits."""
    branch = Branch("e", lazy=["a"])
    branch.publish("m")
    branch.flush()
    assert branch.machine.next_deadline() == NEVER
    assert branch.wait(60) == []
    branch.publish("n")
    assert sent(branch.flush()) == [("a", ihave("n"))]


def test_who_holds_a_message_is_not_told_of_it() -> None:
    """E33: a peer that announced, pushed or asked us to push needs no announcement; others do."""
    branch = Branch("e", "twice", lazy=["before", "after", "not"])
    branch.receive("before", ihave("m"))
    branch.receive("e", Gossip("m", 1, "payload"))
    branch.receive("twice", Gossip("m", 2, "payload"))
    branch.receive("after", ihave("m"))
    branch.publish("n")
    told = dict(sent(branch.flush(), IHave))
    assert {peer: [id for id, _ in message.summary] for peer, message in told.items()} == {
        "before": ["n"],
        "after": ["n"],
        "twice": ["n"],
        "not": ["m", "n"],
    }


def test_a_large_message_is_announced_when_it_can_have_been_pushed() -> None:
    """E33: 0.032 s later for each 16 KiB."""
    small, large = Branch(lazy=["a"]), Branch(lazy=["a"])
    small.publish("m", 16_383)
    large.publish("m", 6 * 16_384)
    later = large.machine.next_deadline() - small.machine.next_deadline()
    assert later == pytest.approx(6 * 0.032)


def test_later_messages_do_not_put_the_flush_off() -> None:
    """E33: the timer runs from the first message that waits."""
    branch = Branch(lazy=["a"])
    branch.publish(0)
    due = branch.machine.next_deadline()
    for n in range(1, 9):
        assert sent(branch.wait(due / 10)) == []
        branch.publish(n)
        assert branch.machine.next_deadline() == due
    assert sent(branch.wait(due / 5)) == [("a", ihave(*range(9)))]


def test_announcements_are_batched_where_traffic_is_high() -> None:
    """E33: however many messages, a peer gets an IHAVE every half `lazy_interval` at most, and
    each id within the interval."""
    branch = Branch(lazy=["a"], lazy_interval=2.0)
    published: dict[object, float] = {}
    flushed: list[float] = []
    for n in range(1000):
        published[n] = branch.now
        branch.publish(n)
        for _, message in sent(branch.wait(0.02), IHave):
            flushed.append(branch.now)
            for id, _ in message.summary:
                assert branch.now - published.pop(id) <= 2.0 + 0.02
    assert len(flushed) >= 10
    assert all(1.0 - 0.02 <= b - a <= 2.0 + 0.02 for a, b in pairwise(flushed))


def test_two_nodes_announce_at_different_times() -> None:
    """E33: of two neighbours that the tree doesn't connect one announces first, and the other,
    which has learned by it that the first holds the message, need not."""
    here, there = Branch(lazy=["x"]), Branch(lazy=["x"], seed=1)
    here.publish("m")
    there.publish("m")
    first, second = sorted([here, there], key=lambda branch: branch.machine.next_deadline())
    between = second.machine.next_deadline() - first.machine.next_deadline()
    assert between > 0.01
    first.flush()
    second.receive("x", ihave("m"))
    assert sent(second.flush()) == []


def test_neighbours_that_are_eager_but_were_not_pushed_to_are_told() -> None:
    """E33: not to lazy peers alone: what counts is which peers are known to hold the message."""
    branch = Branch("a", lazy=["b"])
    branch.publish("m")
    branch.handle(NeighborUp("c", LinkKind.RANDOM))
    branch.receive("b", Graft())
    assert [peer for peer, _ in sent(branch.flush(), IHave)] == ["b", "c"]


def test_who_becomes_lazy_before_the_flush_is_told() -> None:
    """E33: what was pushed to it needs no announcement; what comes after it became lazy does."""
    branch = Branch("a", "b", lazy=["c"])
    branch.publish("m")
    branch.receive("a", Prune())
    branch.publish("n")
    assert sent(branch.flush()) == [("a", ihave("n")), ("c", ihave("m", "n"))]


def test_who_is_gone_is_not_told() -> None:
    """E33, E40."""
    branch = Branch("e", lazy=["a", "b"])
    branch.publish("m")
    branch.receive("b", Graft())
    branch.handle(NeighborDown("a", DownReason.FAILED))
    branch.handle(NeighborDown("b", DownReason.FAILED))
    assert sent(branch.wait(1), IHave) == []


def test_long_queues_are_split_and_bounded() -> None:
    """E33: no IHAVE is longer than its receivers take, and the newest messages stay."""
    branch = Branch(lazy=["a"])
    for id in range(MAX_QUEUED + 15):
        branch.publish(id)
    told = [message for _, message in sent(branch.flush(), IHave)]
    assert {len(message.summary) for message in told} == {MAX_IDS}
    announced = [line.id for message in told for line in message.summary]
    assert announced == list(range(15, MAX_QUEUED + 15))


def test_what_one_peer_is_owed_is_bounded() -> None:
    """E33: a peer whose queue is always full costs a bounded memory."""
    branch = Branch("a")
    for id in range(MAX_QUEUED + 90):
        branch.handle(ev.PayloadDropped("a", id, 2))
    told = [line.id for _, message in sent(branch.flush(), IHave) for line in message.summary]
    assert told == list(range(90, MAX_QUEUED + 90))


def test_a_new_neighbour_without_news_starts_no_timer() -> None:
    """E33, E39."""
    branch = Branch()
    branch.handle(NeighborUp("a", LinkKind.RANDOM))
    assert branch.machine.next_deadline() == NEVER


def test_links_in_place_of_failed_ones_are_announced_what_those_may_have_missed() -> None:
    """E39: since they fell silent, where several did; long afterwards only the newest."""
    branch = Branch("a", "b")

    def announced_to(peer: str) -> list[object]:
        branch.handle(NeighborUp(peer, LinkKind.RANDOM))
        lines = [(to, line.id) for to, m in sent(branch.flush(), IHave) for line in m.summary]
        return [id for to, id in lines if to == peer]

    for second in range(20):
        branch.publish(second)
        branch.wait(1)
    branch.handle(NeighborDown("a", DownReason.FAILED, branch.now - 8))
    assert announced_to("w") == [17, 18, 19]
    branch.handle(NeighborDown("b", DownReason.FAILED, branch.now - 7))
    assert announced_to("x") == announced_to("y") == list(range(9, 20))
    branch.wait(11)
    branch.publish("newest")
    assert announced_to("late") == ["newest"]


def test_a_neighbour_whose_link_had_failed_is_announced_all_since_then() -> None:
    """E39: it may have been on the other side of a partition. Others are announced the newest."""
    branch = Branch("a", "b")
    branch.handle(NeighborDown("a", DownReason.FAILED))
    branch.handle(NeighborDown("b", DownReason.EVICTED))
    for second in range(40):
        branch.publish(second)
        branch.wait(1)
    # Links that cross after a partition may end again at once.
    branch.handle(NeighborUp("a", LinkKind.RANDOM))
    branch.handle(NeighborDown("a", DownReason.ENDED))
    branch.handle(NeighborUp("a", LinkKind.RANDOM))
    branch.handle(NeighborUp("b", LinkKind.RANDOM))
    told = [(peer, line.id) for peer, m in sent(branch.flush(), IHave) for line in m.summary]
    assert [id for peer, id in told if peer == "a"] == list(range(40))
    assert [id for peer, id in told if peer == "b"] == [37, 38, 39]
    # Once, if the link stands.
    branch.wait(10)
    branch.handle(NeighborDown("a", DownReason.ENDED))
    branch.publish("last")
    branch.handle(NeighborUp("a", LinkKind.RANDOM))
    told = [(peer, line.id) for peer, m in sent(branch.flush(), IHave) for line in m.summary]
    assert told == [("a", "last")]
