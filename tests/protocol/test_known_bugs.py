"""Bugs of the one earlier implementation of Episub, as tests of this one."""

from __future__ import annotations

from episub_router.protocol import events as ev
from episub_router.protocol.messages import (
    MAX_NODES,
    ForwardJoin,
    Gossip,
    Graft,
    Join,
    Neighbor,
    NeighborRole,
    Nodes,
    ShuffleReply,
)
from tests.protocol.helpers import Branch, Member, ihave, request, sent


def test_forced_joins_do_not_grow_the_active_view_without_bound() -> None:
    """E06, E10, E13: joins that must be accepted (TTL 0), requests of peers in need, and
    acceptances and queries that nobody asked for don't go beyond the hard bound."""
    member = Member("a")
    for n in range(200):
        member.receive("a", Join(f"join{n}", 0))
        member.handle(ev.Connected(f"join{n}"))
        member.receive(f"self{n}", Join(f"self{n}", 0))
        member.receive("a", ForwardJoin(f"forward{n}", 0))
        member.receive(f"need{n}", request(links=0))
        member.receive(f"accept{n}", Neighbor(NeighborRole.ACCEPT, 0))
        member.receive(f"query{n}", Neighbor(NeighborRole.QUERY, 0))
        assert len(member.active) <= member.params.active_bound
    assert len(member.active) >= member.params.active_size


def test_an_overflowing_passive_view_is_not_wiped() -> None:
    """E19: one peer too many costs one entry, whatever brings it."""
    peers = tuple(f"p{n}" for n in range(48))
    member = Member("a", "b", passive=peers)
    size = member.params.passive_size
    assert len(member.passive) == size
    member.wait(member.params.shuffle_interval)
    member.receive("x", ShuffleReply(tuple(f"reply{n}" for n in range(50))))
    assert len(member.passive) == size
    assert len(member.passive & set(peers)) >= size - 8
    for n in range(100):
        member.receive("a", ForwardJoin(f"new{n}", 0))
        assert len(member.passive) == size
    joiner = Member()
    joiner.handle(ev.Connected("c"))
    joiner.handle(ev.JoinOverlay(("c",)))
    joiner.handle(ev.ContactsFound(("early1", "early2")))
    joiner.receive("c", Nodes(peers, 6))
    assert len(joiner.passive) == 3 + MAX_NODES


def test_ids_of_any_length_are_ids() -> None:
    """E32, E34, E36: the empty id, short ones and long ones, of messages and of peers."""
    for id in (b"", b"\0", b"short", b"x" * 15, b"x" * 10_000):
        branch = Branch("e", lazy=["l"])
        branch.receive("l", ihave(id))
        branch.receive("l", Graft((id,)))
        branch.wait(2)
        branch.receive("e", Gossip(id, 1, "payload"))
        assert sent(branch.receive("l", Graft((id,)))) == [("l", Gossip(id, 2, "payload"))]
        branch.handle(ev.PayloadArrived("e", id, 1))
        member = Member("a", "b")
        member.handle(ev.Received(id, Join(id, 0)))
        assert id in member.active


def test_forwardjoin_is_walked_not_flooded() -> None:
    """E07: one copy goes on from each node, so that a join costs TTL messages, not A^TTL."""
    for seed in range(20):
        member = Member(*"abcdefgh", seed=seed)
        assert len(sent(member.receive("a", ForwardJoin("new", 6)), ForwardJoin)) == 1
        member = Member(*"abcdefg", seed=seed)
        assert len(sent(member.receive("new", Join("new", 6)), ForwardJoin)) == 1


def test_graft_makes_both_ends_eager() -> None:
    """E35, E36, E40: a peer that sent a GRAFT and got the message pushes over the link from then
    on as well, and sends no other while there is no more to ask for; so does the other end."""
    here, there = Branch(lazy=["there"]), Branch(lazy=["here"])
    there.publish("m")
    ((_, told),) = sent(there.flush())
    here.receive("there", told)
    ((_, graft),) = sent(here.wait(0.5))
    ((_, push),) = sent(there.receive("here", graft))
    assert there.eager == {"here"}
    assert sent(here.receive("there", push)) == []
    assert here.eager == {"there"}
    assert sent(here.wait(60)) == []
    assert [peer for peer, _ in sent(here.publish("n"))] == ["there"]
