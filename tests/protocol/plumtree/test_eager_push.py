"""Pushing messages along the tree, and the tree that comes of it (E30-E33, E38-E40)."""

from __future__ import annotations

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import (
    Deliver,
    DownReason,
    NeighborDown,
    NeighborUp,
    Send,
)
from episub_router.protocol.messages import (
    MAX_HOPS,
    MAX_IDS,
    Gossip,
    Graft,
    IHave,
    LinkKind,
    Prune,
)
from episub_router.protocol.params import BroadcastParams, EagerRepair
from episub_router.protocol.types import NEVER
from tests.protocol.helpers import Branch, Member, ihave, sent


def test_optimised_delivery_isn_t_pushed_to_the_new_parent() -> None:
    """E38: a peer that announced the message has it. A copy would be answered with PRUNE, which
    would leave the node without the link that it just took in and without the one it gave up."""
    branch = Branch("far", lazy=["near"], params=BroadcastParams(optimization_threshold=1))
    branch.receive("near", ihave("m", hops=2))
    effects = branch.receive("far", Gossip("m", 12, "payload"))
    assert sent(effects) == [("near", Graft()), ("far", Prune())]
    assert (branch.eager, branch.lazy) == ({"near"}, {"far"})


def test_hops_sent_on_stay_in_range() -> None:
    """E32: a message at the highest hop count goes on at that count: one more would be counted
    against us by each receiver."""
    branch = Branch("a", "b", lazy=["c"])
    effects = branch.receive("a", Gossip("m", MAX_HOPS, "payload"))
    assert sent(effects) == [("b", Gossip("m", MAX_HOPS, "payload"))]
    assert sent(branch.wait(1)) == [("c", ihave("m", hops=MAX_HOPS))]
    assert sent(branch.receive("c", Graft(("m",)))) == [("c", Gossip("m", MAX_HOPS, "payload"))]


def test_publishing_pushes_to_all_eager_peers() -> None:
    """E30: hops 1 to eager peers, delivered here too, cached, and announced to lazy ones."""
    branch = Branch("a", "b", lazy=["c"])
    effects = branch.publish("m", 7)
    assert effects[0] == Deliver("m", "payload m", None, 0)
    push = Gossip("m", 1, "payload m", 7)
    assert sent(effects) == [("a", push), ("b", push)]
    assert sent(branch.receive("c", Graft(("m",)))) == [("c", push)]
    assert sent(Branch(lazy=["c"]).publish("m")) == []


def test_publishing_twice_is_publishing_once() -> None:
    """E30, E32: an id is delivered once."""
    branch = Branch("a")
    branch.publish("m")
    assert branch.publish("m") == []
    branch.receive("a", Gossip("n", 1, "payload"))
    assert branch.publish("n") == []


def test_a_new_message_is_delivered_and_pushed_on() -> None:
    """E32: to the application first, then with hops + 1 to eager peers, not back to the sender."""
    branch = Branch("a", "b", "c", lazy=["d"])
    effects = branch.receive("a", Gossip("m", 4, "payload", 7))
    push = Gossip("m", 5, "payload", 7)
    assert effects[0] == Deliver("m", "payload", "a", 4)
    assert sent(effects) == [("b", push), ("c", push)]


def test_who_brings_a_new_message_becomes_eager() -> None:
    """E32: the link has proved to be the fast one. Our PRUNE to it is still under way, and must
    not be the last that it hears."""
    branch = Branch("a", lazy=["b"])
    effects = branch.receive("b", Gossip("m", 1, "payload"))
    assert (branch.eager, branch.lazy) == ({"a", "b"}, set())
    assert sent(effects) == [("b", Graft()), ("a", Gossip("m", 2, "payload"))]


def test_a_message_seen_before_prunes_the_link() -> None:
    """E31: PRUNE to the sender, which becomes lazy; nothing is delivered or pushed on."""
    branch = Branch("a", "b")
    branch.receive("a", Gossip("m", 1, "payload"))
    effects = branch.receive("b", Gossip("m", 3, "payload"))
    assert effects == [Send("b", Prune())]
    assert (branch.eager, branch.lazy) == ({"a"}, {"b"})


def test_prune_makes_the_sender_lazy_here() -> None:
    """E31, E33: the other end of the same link, which carries announcements from then on."""
    branch = Branch("a", "b")
    assert branch.receive("a", Prune()) == []
    assert (branch.eager, branch.lazy) == ({"b"}, {"a"})
    assert [peer for peer, _ in sent(branch.publish("m"))] == ["b"]
    assert sent(branch.flush()) == [("a", ihave("m"))]


@pytest.mark.parametrize(
    ("threshold", "announced", "pushed", "swapped"),
    [(7, 1, 9, True), (7, 1, 8, False), (3, 5, 9, True), (3, 5, 8, False), (None, 1, 60, False)],
)
def test_tree_follows_the_shorter_way(
    threshold: int | None, announced: int, pushed: int, swapped: bool
) -> None:
    """E38: a push that took more hops than an announcement, by more than the threshold, swaps
    the two links: GRAFT to the one, PRUNE to the other."""
    branch = Branch("far", lazy=["near"], params=BroadcastParams(optimization_threshold=threshold))
    branch.receive("near", ihave("m", hops=announced))
    effects = branch.receive("far", Gossip("m", pushed, "payload"))
    assert ([("near", Graft()), ("far", Prune())] == sent(effects)) == swapped
    assert branch.eager == ({"near"} if swapped else {"far"})


def test_the_best_of_several_announcers_is_taken_in() -> None:
    """E38: the one with the fewest hops."""
    branch = Branch("far", lazy=["b", "c", "d"], params=BroadcastParams(optimization_threshold=1))
    for peer, hops in [("b", 3), ("c", 2), ("d", 4)]:
        branch.receive(peer, ihave("m", hops=hops))
    branch.receive("far", Gossip("m", 20, "payload"))
    assert branch.eager == {"c"}


def test_by_default_a_claim_of_few_hops_moves_no_link() -> None:
    """E38: nobody can check it, and with it a few members become the parents of all."""
    branch = Branch("far", lazy=["liar"])
    branch.receive("liar", ihave("m", hops=1))
    assert sent(branch.receive("far", Gossip("m", 60, "payload"))) == []
    assert branch.eager == {"far"}


def test_who_is_no_neighbour_any_more_is_not_taken_in() -> None:
    """E38: an announcer may have gone before the message came."""
    branch = Branch("far", lazy=["near"], params=BroadcastParams(optimization_threshold=1))
    branch.receive("near", ihave("m"))
    branch.handle(NeighborDown("near", DownReason.FAILED))
    branch.receive("far", Gossip("m", 20, "payload"))
    assert (branch.eager, branch.lazy) == ({"far"}, set())


def test_a_new_neighbour_is_told_of_recent_messages() -> None:
    """E39: it may have been cut off while they went round; what is older isn't announced to it."""
    branch = Branch()
    branch.publish("old")
    branch.wait(5)
    for id in range(MAX_IDS + 2):
        branch.publish(id)
        branch.wait(0.01)
    branch.handle(NeighborUp("b", LinkKind.RANDOM))
    assert sent(branch.flush()) == [("b", ihave(*range(2, MAX_IDS + 2)))]


def test_a_neighbour_whose_stream_was_replaced_is_told_of_recent_messages() -> None:
    """E39: what was on the old stream is lost; the link stands."""
    member = Member("p")
    member.handle(ev.Publish("m", "payload"))
    member.wait(1)
    effects = member.handle(ev.Connected("p")) + member.wait(1)
    assert ("p", ihave("m")) in sent(effects, IHave)


def test_losing_a_lazy_peer_changes_nothing() -> None:
    """E40: the tree doesn't run over it."""
    branch = Branch("a", lazy=["b", "c"])
    assert branch.handle(NeighborDown("b", DownReason.FAILED)) == []
    assert (branch.eager, branch.lazy) == ({"a"}, {"c"})


def test_losing_an_eager_peer_promotes_a_lazy_one() -> None:
    """E40, the default: an empty GRAFT at once; PRUNEs thin the tree again."""
    branch = Branch("a", lazy=["b", "c"])
    effects = branch.handle(NeighborDown("a", DownReason.FAILED))
    assert sent(effects) == [("b", Graft())]
    assert (branch.eager, branch.lazy) == ({"b"}, {"c"})


def test_each_source_has_a_parent_whose_loss_is_repaired() -> None:
    """E40: two peers brought messages; that one of them stays doesn't make up for the other."""
    branch = Branch("a", "b", lazy=["c"])
    branch.receive("a", Gossip("m", 3, "payload"))
    branch.receive("b", Gossip("n", 3, "payload"))
    assert sent(branch.handle(NeighborDown("a", DownReason.FAILED))) == [("c", Graft())]


def test_losing_an_eager_peer_may_wait_for_announcements() -> None:
    """E40, as in the Plumtree paper: nothing until an IHAVE shows that something is missing."""
    branch = Branch("a", lazy=["b"], params=BroadcastParams(repair=EagerRepair.LAZY))
    assert branch.handle(NeighborDown("a", DownReason.FAILED)) == []
    branch.receive("b", ihave("m"))
    assert sent(branch.wait(0.5)) == [("b", Graft(("m",)))]
    branch.receive("b", Gossip("m", 1, "payload"))
    assert branch.eager == {"b"}


def test_payload_that_could_not_be_queued_is_announced() -> None:
    """E33: a full queue to one peer costs a detour, not the message."""
    branch = Branch("a", "b")
    branch.publish("m")
    branch.handle(ev.PayloadDropped("a", "m", 1))
    assert sent(branch.wait(1)) == [("a", ihave("m"))]
    branch.handle(ev.PayloadDropped("stranger", "m", 1))
    assert branch.machine.next_deadline() == NEVER


@pytest.mark.parametrize(("eager", "lazy", "source"), [("a", "b", "second"), ("ab", "", None)])
def test_duplicates_prune_whoever_leads(eager: str, lazy: str, source: str | None) -> None:
    """E31: of a lazy peer, which has yet to hear that its link was cut; and each of a message that
    doesn't say whose it is."""
    branch = Branch(*eager, lazy=lazy)
    branch.receive("a", Gossip("m", 1, "payload", source="first"))
    duplicate = Gossip("n", 1, "payload", source=source)
    branch.receive("a", duplicate)
    assert sent(branch.receive("b", duplicate)) == [("b", Prune())]


def test_the_source_goes_on_with_the_message() -> None:
    """It is the same for all, so that all find the same source leading."""
    branch = Branch("a", "b", lazy=["c"])
    effects = branch.receive("a", Gossip("m", 1, "payload", source="first"))
    push = Gossip("m", 2, "payload", source="first")
    assert sent(effects) == [("b", push)]
    assert sent(branch.receive("c", Graft(("m",)))) == [("c", push)]
