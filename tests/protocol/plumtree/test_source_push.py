"""Where messages go along per-source trees, and what their copies mean for these."""

from __future__ import annotations

from typing import Any

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import Deliver, DownReason, Effect, NeighborDown, NeighborUp
from episub_router.protocol.messages import Gossip, Graft, IHave, LinkKind, Prune, Root, TreeRoot
from episub_router.protocol.plumtree.tree import ADOPT_AFTER, FAILED_AFTER, TREE_IDLE
from tests.protocol.helpers import ME, Branch, ihave, sent
from tests.protocol.plumtree.roots import (
    GRAFT_ME,
    GRAFT_S,
    PRUNE_S,
    SETTLE,
    ask,
    bring,
    built,
    gossip,
    lose,
    publish,
    pull,
    root,
)


def receivers(effects: list[Effect]) -> list[object]:
    """The neighbours that are pushed to."""
    return [peer for peer, _ in sent(effects, Gossip)]


# Where a message goes


def test_a_source_s_message_goes_to_children_alone() -> None:
    """With the root, its size and one hop more; the eager links of the default tree don't
    matter."""
    branch = built("a", "b", "c", "d")
    branch.receive("c", GRAFT_S)
    branch.receive("d", GRAFT_S)
    branch.receive("d", PRUNE_S)
    assert branch.eager == {"a", "b", "c", "d"}
    effects = branch.receive("a", gossip("m"))
    assert effects[0] == Deliver("m", "payload", "a", 3)
    assert sent(effects) == [("c", gossip("m", 4))]
    assert branch.eager == {"a", "b", "c", "d"}


@pytest.mark.parametrize(("peer", "to"), [("a", "cd"), ("c", "da"), ("b", "cda")])
def test_another_source_s_message_goes_up_and_down_the_tree(peer: str, to: str) -> None:
    """Of a source without a tree of its own: wherever it enters, the whole tree gets it."""
    branch = built("a", "b", "c", "d")
    branch.receive("c", GRAFT_S)
    branch.receive("d", GRAFT_S)
    effects = branch.receive(peer, gossip("m", 2, source="t"))
    assert sent(effects) == [(other, gossip("m", 3, source="t")) for other in to]


def test_it_is_flooded_within_two_links_of_its_source() -> None:
    """So that it enters the tree at many places; the publisher's neighbours push it to theirs,
    those go on along the tree."""
    branch = built("a", "b", "c")
    assert receivers(branch.receive("b", gossip("m", 1, source="t"))) == ["a", "c"]
    assert receivers(branch.receive("b", gossip("n", 2, source="t"))) == ["a"]
    branch.receive("a", gossip("s1", 3))
    own = sent(publish(branch, "o"), Gossip)
    assert own == [(peer, Gossip("o", 1, "payload", 0, ME, "s")) for peer in "abc"]


def test_our_own_message_goes_along_the_nearest_root_s_tree() -> None:
    """By cost, of those that stand and have a parent here; else along the default tree."""
    branch = built("a", "b", a=0.2)
    branch.receive("a", gossip("s1", 2))
    branch.receive("b", root(source="t", cost=0.1))
    branch.receive("b", Gossip("t1", 2, "payload", 0, "t", "t"))
    assert {push.tree for _, push in sent(publish(branch, "m"), Gossip)} == {"s"}
    branch.wait(SETTLE)
    assert {push.tree for _, push in sent(publish(branch, "n"), Gossip)} == {"t"}
    lose(branch, "b")
    assert {push.tree for _, push in sent(publish(branch, "o"), Gossip)} == {"s"}
    lose(branch, "a")
    branch.handle(NeighborUp("c", LinkKind.RANDOM))
    assert {push.tree for _, push in sent(publish(branch, "p"), Gossip)} == {None}


def test_a_message_along_an_unknown_tree_goes_nowhere_but_is_announced() -> None:
    """We aren't part of that tree yet: nobody counts on us to push."""
    branch = Branch("a", "b")
    effects = branch.receive("a", gossip("m"))
    assert isinstance(effects[0], Deliver)
    assert sent(effects) == []
    assert sent(branch.flush(), IHave) == [("b", ihave("m", hops=4))]


def test_holders_are_not_pushed_to() -> None:
    """A child that has announced the message, or whose copy is being validated beside it."""
    branch = built("a", "b", "c")
    branch.receive("b", GRAFT_S)
    branch.receive("c", GRAFT_S)
    branch.receive("b", ihave("m"))
    assert receivers(branch.receive("a", gossip("m"))) == ["c"]
    for peer in "ac":
        branch.handle(ev.PayloadArrived(peer, "n", 3, "s"))
    effects = branch.handle(ev.PayloadAccepted("a", "n", "payload", 7, "s"))
    assert sent(effects, Gossip) == [("b", gossip("n", 4))]


# Duplicates


def test_a_neighbour_that_pushes_beside_the_parent_is_pruned_in_this_tree() -> None:
    branch = built("a", "b", "c")
    branch.receive("b", GRAFT_S)
    branch.receive("a", gossip("m"))
    assert sent(branch.receive("b", gossip("m"))) == [("b", PRUNE_S)]
    assert branch.eager == {"a", "b", "c"}
    # Of two that push to each other each PRUNEs the other.
    branch.receive("b", PRUNE_S)
    assert receivers(branch.receive("a", gossip("n"))) == []


def test_the_parent_s_own_second_copy_prunes_nothing() -> None:
    branch = built("a", "b")
    branch.receive("a", gossip("m"))
    assert branch.receive("a", gossip("m")) == []


def test_copies_that_we_asked_for_prune_nothing() -> None:
    """Two announcers were asked in turn, and both answered."""
    branch = built("a", "b", "c")
    branch.receive("b", ihave("m"))
    branch.receive("c", ihave("m"))
    asked = sent(branch.wait(0.9), Graft)
    assert asked == [("b", Graft(("m",))), ("c", Graft(("m",)))]
    branch.receive("b", gossip("m"))
    assert sent(branch.receive("c", gossip("m"))) == []
    assert sent(branch.receive("a", gossip("m"))) == []


def test_copies_that_don_t_come_from_the_root_down_prune_nothing() -> None:
    """Floods and pushes up the tree meet by design."""
    branch = built("a", "b")
    branch.receive("b", gossip("m", 2, source="t"))
    assert sent(branch.receive("a", gossip("m", 3, source="t"))) == []
    assert sent(branch.receive("a", gossip("n"))) == []


def test_strangers_copies_are_ignored() -> None:
    branch = built("a")
    branch.receive("a", gossip("m"))
    assert branch.receive("x", gossip("m")) == []


# Parents


def test_a_parent_that_is_late_gives_way_and_does_not_fail() -> None:
    """Its copies come after those that were asked for: slow, not gone. It may be the parent again
    once it has announced what came from elsewhere."""
    branch = built("a", "b", a=0.1)
    for id in range(2 * FAILED_AFTER):
        grafts = sent(pull(branch, "b", id), Graft) if id < 2 else []
        if id >= 2:
            branch.receive("b", gossip(id))
        assert grafts == ([("b", GRAFT_S)] if id == 1 else [])
        branch.receive("a", gossip(id))
        branch.wait(0.7)
    tree = branch.machine.trees["s"]
    assert tree.parent == "b"
    assert not tree.service("a").failures


def test_a_parent_that_misses_two_messages_in_a_row_is_replaced() -> None:
    """By the neighbour that had to bring them; one may have been lost on its way."""
    branch = built("a", "b", a=0.1)
    assert sent(pull(branch, "b", 0), Graft) == []
    branch.receive("a", gossip(1))
    assert sent(pull(branch, "b", 2), Graft) == []
    assert sent(pull(branch, "b", 3), Graft) == [("b", GRAFT_S)]
    assert ("a", PRUNE_S) in sent(branch.wait(2), Prune)
    assert sent(branch.receive("b", gossip(4)), Prune, Graft) == []


def test_a_neighbour_that_may_get_them_from_us_doesn_t_replace_it() -> None:
    """It is no nearer to the source than we are: parents could form a cycle. Only when the parent
    has failed is it asked, and the source for another round."""
    branch = built("a", "b", a=0.1, b=0.2)
    for id in range(FAILED_AFTER - 1):
        assert ("b", GRAFT_S) not in sent(pull(branch, "b", id), Graft)
    effects = sent(pull(branch, "b", FAILED_AFTER), Graft, Root)
    assert effects == [("b", GRAFT_S), ("b", ask(1))]


@pytest.mark.parametrize(
    ("neighbours", "sends_another", "grafted"),
    [("abc", False, "c"), ("abc", True, "a"), ("ab", False, "a")],
)
def test_a_silent_parent_is_replaced_by_another_that_is_nearer_to_the_source(
    neighbours: str, sends_another: bool, grafted: str
) -> None:
    """Whoever had to bring the messages. One that sends others, or that no other can replace, gets
    our GRAFT again."""
    branch = built(*neighbours, a=0.1, b=0.2)
    assert sent(pull(branch, "b", 0), Graft) == []
    if sends_another:
        branch.receive("a", gossip("another", source=None, tree=None))
    assert sent(pull(branch, "b", 1), Graft) == [(grafted, GRAFT_S)]


def test_a_parent_that_has_to_be_asked_gets_our_graft_again() -> None:
    """It doesn't know that we are its child: the first GRAFT was lost, or it forgot the tree."""
    branch = built("a", "b")
    assert sent(pull(branch, "a", "m"), Graft) == [("a", GRAFT_S)]


def test_without_a_parent_the_first_to_bring_a_message_becomes_it() -> None:
    """And the source is asked for another round where that may close a cycle."""
    branch = Branch("a", "b")
    bring(branch, "a", a=0.1)
    lose(branch, "a")
    assert sent(pull(branch, "b", "m"), Graft) == [("b", GRAFT_S)]
    branch.handle(NeighborDown("b", DownReason.FAILED))
    branch.handle(NeighborUp("c", LinkKind.RANDOM))
    effects = sent(pull(branch, "c", "n"))
    assert ("c", GRAFT_S) in effects
    assert ("c", ask(1)) in effects


def test_a_nearer_neighbour_that_pushes_already_becomes_the_parent_without_graft() -> None:
    """We are its child, by a PRUNE that was lost or is on its way, and it is faster. The former
    parent is left a little later, or with its first copy that isn't needed."""
    for late in (False, True):
        branch = built("a", "b", a=0.1)
        assert sent(branch.receive("b", gossip("m")), Graft, Prune) == []
        effects = branch.wait(2) if late else branch.receive("a", gossip("m"))
        assert ("a", PRUNE_S) in sent(effects, Prune)
        assert sent(branch.receive("b", gossip("n")), Graft, Prune) == []


def test_a_neighbour_that_pushes_and_is_no_nearer_is_pruned() -> None:
    branch = built("a", "b", a=0.1, b=0.2)
    assert sent(branch.receive("b", gossip("m")), Graft, Prune) == [("b", PRUNE_S)]


# Announcements


def test_neighbours_that_count_on_us_as_their_standby_are_told_at_once() -> None:
    """All others later, together with other ids; a child is pushed to and needs neither."""
    branch = built("a", "b", "c", "d")
    for peer in "bcd":
        branch.receive(peer, Graft(standby=("s",)))
    branch.receive("c", Prune(standby=("s",)))
    branch.receive("d", GRAFT_S)
    effects = branch.receive("a", gossip("m"))
    assert receivers(effects) == ["d"]
    assert sent(effects, IHave) == [("b", ihave("m", hops=4))]
    assert sent(branch.flush(), IHave) == [("c", ihave("m", hops=4))]


@pytest.mark.parametrize(("size", "at_once"), [(16_383, True), (16_384, False)])
def test_standbys_are_told_of_a_large_message_later(size: int, at_once: bool) -> None:
    """Their parents are still pushing it, and they would ask for another copy."""
    branch = built("a", "b")
    branch.receive("b", Graft(standby=("s",)))
    effects = branch.receive("a", Gossip("m", 3, "payload", size, "s", "s"))
    assert bool(sent(effects, IHave)) == at_once
    assert bool(sent(branch.flush(), IHave)) != at_once


def test_standbys_are_told_of_our_own_messages_at_once() -> None:
    branch = Branch("a", "b")
    publish(branch, "m")
    branch.receive("a", GRAFT_ME)
    branch.receive("b", Graft(standby=(ME,)))
    branch.wait(1)
    effects = publish(branch, "n")
    assert (receivers(effects), sent(effects, IHave)) == (["a"], [("b", ihave("n"))])


def test_who_holds_the_message_is_not_told_at_once_either() -> None:
    branch = built("a", "b", "c")
    for peer in "abc":
        branch.receive(peer, Graft(standby=("s",)))
    branch.receive("b", ihave("m"))
    effects = branch.receive("a", gossip("m"))
    assert sent(effects) == [("c", ihave("m", hops=4))]


def test_a_pulled_message_is_announced_to_the_parent_at_once() -> None:
    """It didn't push it: it may be without the message, and have nobody else to get it from."""
    branch = built("a", "b", "c")
    assert ("a", ihave("m", hops=4)) in sent(pull(branch, "b", "m"), IHave)
    assert sent(branch.receive("a", gossip("n")), IHave) == []


def test_a_parent_that_has_announced_the_message_itself_is_not_told() -> None:
    branch = built("a", "b", "c")
    assert sent(pull(branch, "b", "n"), IHave) == [("a", ihave("n", hops=4))]
    branch.receive("a", ihave("m"))
    branch.receive("b", ihave("m"))
    branch.wait(0.7)
    assert sent(branch.receive("b", gossip("m")), IHave) == []


def test_a_message_is_announced_though_many_that_are_gone_hold_it() -> None:
    """Copies of strangers don't count as neighbours that hold it."""
    branch = Branch("a", "b", "q")
    branch.handle(ev.PayloadArrived("a", "m", 1))
    for stranger in ("x", "y", "z"):
        branch.handle(ev.PayloadArrived(stranger, "m", 1))
    branch.receive("q", Prune())
    branch.handle(ev.PayloadAccepted("a", "m", "payload"))
    assert "q" in [peer for peer, _ in sent(branch.flush(), IHave)]


@pytest.mark.parametrize("source", ["t", None])
def test_what_others_say_of_a_message_makes_no_tree(source: Any) -> None:
    """Nor of one without an author."""
    branch = built("a", "b")
    for number in range(300):
        branch.receive("b", gossip(number, source=source, tree=f"invented {number}"))
    assert branch.machine.trees.get("s") is not None
    assert len(branch.machine.trees) == 1


def test_a_former_parent_that_turned_to_us_stays_our_child() -> None:
    """Its last push along the old way and our new one cross."""
    branch = built("a", "b")
    bring(branch, "b", "a", round=2)
    branch.receive("a", GRAFT_S)
    branch.receive("b", gossip("m"))
    branch.receive("a", gossip("m"))
    assert receivers(branch.receive("b", gossip("n"))) == ["a"]


def test_a_claim_about_our_own_rounds_changes_nothing() -> None:
    branch = Branch("a")
    branch.receive("a", root(round=2**64 - 1, source=ME))
    ((_, message),) = sent(publish(branch, "m"), Root)
    assert message.roots[0].round == 1


def test_a_round_that_is_over_stays_over() -> None:
    """Or newcomers would offer each other the trees of sources that are gone, for ever."""
    branch = built("a", "b")
    branch.wait(TREE_IDLE + 1)
    assert sent(branch.receive("b", root())) == []


# Messages without authors


def unsigned(id: object, tree: Any = "s") -> Gossip:
    return gossip(id, source=None, tree=tree)


def test_a_message_without_an_author_goes_down_the_tree_that_it_names() -> None:
    branch = built("a", "b", "c", "d")
    branch.receive("c", GRAFT_S)
    branch.receive("d", Graft(standby=("s",)))
    effects = branch.receive("a", unsigned("m"))
    assert receivers(effects) == ["c"]
    assert sent(effects, IHave) == [("d", ihave("m", hops=4))]
    assert sent(branch.receive("b", unsigned("m"))) == [("b", PRUNE_S)]


def test_a_publisher_of_messages_without_authors_has_a_tree() -> None:
    """Its first message goes along the shared tree, whichever trees stand: along another it would
    seem to come from its root."""
    branch = built("a", "b")
    branch.receive("a", gossip("s1", 2))
    effects = branch.handle(ev.Publish("m", "payload", 0, None, "mine"))
    assert [push for _, push in sent(effects, Gossip)] == [Gossip("m", 1, "payload")] * 2
    assert {message.roots[0].source for _, message in sent(effects, Root)} == {"mine"}
    branch.receive("b", Graft(sources=("mine",)))
    branch.wait(1)
    effects = branch.handle(ev.Publish("n", "payload", 0, None, "mine"))
    assert sent(effects) == [("b", Gossip("n", 1, "payload", 0, None, "mine"))]


# Parents and standbys that don't do what they were asked to


def parent(branch: Branch, source: str = "s") -> object:
    tree = branch.machine.trees.get(source)
    assert tree is not None
    return tree.parent


def test_a_parent_that_pushed_nothing_is_none_after_the_next_root_either() -> None:
    """It takes part in ROOT as others do, and would be chosen again each time."""
    branch = built("a", "b", "c", a=0.1, b=0.2, c=0.2)
    for id in range(FAILED_AFTER):
        assert parent(branch) == "a"
        pull(branch, "b", id)
    assert parent(branch) == "b"
    assert sent(bring(branch, "a", round=2), Root, Graft) == []
    bring(branch, "c", "b", "a", round=2)
    assert parent(branch) in ("b", "c")
    branch.wait(SETTLE)
    tree = branch.machine.trees.get("s")
    assert tree is not None
    assert "a" not in tree.standbys


def test_a_parent_that_announces_what_it_ought_to_push_is_replaced() -> None:
    """It would keep its place, and each message would come late."""
    branch = built("a", "b", "c", a=0.1)
    for id in range(ADOPT_AFTER):
        pull(branch, "b", id)
        branch.receive("a", ihave(id))
    assert parent(branch) == "b"


def test_a_new_round_counts_from_those_alone_that_have_served() -> None:
    """Who brings ROOT sooner than others, and then pushes only some messages, would be the parent
    again after each round. What it announces of others' messages makes up for what it missed."""
    branch = built("a", "b", "c", a=0.1)
    for id in (-2, 0):
        pull(branch, "b", id)
    assert sent(bring(branch, "a", round=2, a=0.1), Root, Graft) == []
    bring(branch, "b", "a", round=2, a=0.1)
    assert parent(branch) == "b"
    branch.receive("b", gossip(1))
    branch.receive("a", ihave(1))
    bring(branch, "a", round=3, a=0.1)
    assert parent(branch) == "a"


def test_one_that_owes_what_it_announced_brings_no_new_round() -> None:
    """Of whichever source: who announces and withholds in one tree does so in others. One answer
    may have been lost on its way."""
    branch = built("b", "a", "c", a=0.1)
    branch.receive("a", ihave("m"))
    branch.wait(0.7)
    assert sent(bring(branch, "a", round=2, a=0.1), Root) != []
    bring(branch, "b", round=3)
    branch.receive("a", ihave("n"))
    branch.wait(0.7)
    assert sent(bring(branch, "a", round=4, a=0.1), Root, Graft) == []
    bring(branch, "b", "a", round=4, a=0.1)
    assert parent(branch) == "b"
    for id in ("m", "n"):
        branch.receive("a", gossip(id, source="t", tree="t"))
    assert sent(bring(branch, "a", round=5, a=0.1), Root) != []


def test_a_parent_that_serves_brings_its_new_rounds_whatever_it_owes() -> None:
    """It may be the only neighbour, and have forgotten that it is to push."""
    branch = built("a")
    for id in ("m", "n"):
        branch.receive("a", ihave(id))
        branch.wait(0.7)
    assert sent(bring(branch, "a", round=2), Graft) == [("a", GRAFT_S)]


def test_a_parent_that_owes_what_it_announced_is_replaced_with_its_first_miss() -> None:
    """It may push most messages, and withhold what it announces of the rest."""
    branch = built("a", "b", a=0.1)
    branch.receive("a", ihave("m"))
    branch.wait(0.7)
    assert parent(branch) == "a"
    assert sent(pull(branch, "b", 0), Graft) == [("b", GRAFT_S)]
    assert parent(branch) == "b"


def two_trees() -> Branch:
    """The parent is a for both sources, and b is the next."""
    branch = Branch("a", "b")
    for peer, cost in [("a", 0.1), ("b", 0.2)]:
        branch.receive(peer, Root((TreeRoot("s", 1, cost), TreeRoot("t", 1, cost))))
        branch.wait(0.03)
    branch.wait(SETTLE)
    assert parent(branch, "s") == parent(branch, "t") == "a"
    return branch


def test_one_that_pushes_in_another_tree_is_left_in_one_alone() -> None:
    """It may keep one source's messages from us, or be without them itself."""
    branch = two_trees()
    for id in range(0, 2 * FAILED_AFTER, 2):
        pull(branch, "b", id, "s")
        branch.receive("a", gossip(id + 1, source="t", tree="t"))
    assert parent(branch, "s") == "b"
    assert parent(branch, "t") == "a"


def test_a_standby_that_announces_nothing_is_replaced() -> None:
    branch = built("a", "b", "c", "d")
    tree = branch.machine.trees.get("s")
    assert tree is not None
    assert tree.standbys == ["b", "c"]
    grafts = []
    for id in range(FAILED_AFTER + 3):
        branch.receive("a", gossip(id))
        branch.receive("c", ihave(id))
        grafts += sent(branch.wait(1), Graft)
    assert grafts == [("d", Graft(standby=("s",)))]
    assert tree.standbys == ["c", "d"]
