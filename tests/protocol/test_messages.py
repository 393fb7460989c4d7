"""The vocabulary (E42)."""

from __future__ import annotations

from typing import get_args

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol import messages as msg
from episub_router.protocol import piece_messages as pieces
from episub_router.protocol.messages import Message
from tests.protocol.helpers import Branch, Member, ihave, sent

SAMPLES: list[Message] = [
    msg.GetNodes(),
    msg.Nodes(("p",), 3),
    msg.GetTopics(),
    msg.Topics(("t",)),
    msg.Join("p", 3),
    msg.ForwardJoin("p", 3),
    *(msg.Neighbor(role, 3, peers=("p",)) for role in msg.NeighborRole),
    msg.Disconnect(),
    msg.Leave("p", 3, b"proof"),
    msg.Shuffle("p", 3, 0, ("q",)),
    msg.ShuffleReply(("q",)),
    msg.Gossip("m", 1, "payload"),
    msg.Gossip("m", 1, "payload", source="s", tree="s"),
    msg.IHave((msg.MessageSummary("m", 1),)),
    msg.Prune(),
    msg.Prune(sources=("s",), standby=("t",)),
    msg.Graft(("m",)),
    msg.Graft(("m",), sources=("s",), standby=("t",)),
    msg.Root((msg.TreeRoot("s", 1, 0.0),), (msg.RootRequest("s", 0),)),
    pieces.PieceAnnounce(pieces.Preamble("m", "s", 10, 5, bytes(32)), 1, 1),
    pieces.Piece("m", bytes(32), 0, bytes(5), (bytes(32),), 5),
    pieces.PieceGraft((pieces.PieceWant("m", 1),), "s"),
    pieces.PieceOffer((pieces.TreeOffer("s", 1),)),
    pieces.PiecePrune("s", ("q",)),
]


def test_every_message_of_the_specification_exists() -> None:
    """E42: the fifteen of its summary; beyond it ROOT, and what large messages go in."""
    names = {kind.__name__.upper() for kind in get_args(Message)}
    assert names == {
        "GETNODES", "NODES", "GETTOPICS", "TOPICS", "JOIN", "FORWARDJOIN", "NEIGHBOR", "DISCONNECT",
        "LEAVE", "SHUFFLE", "SHUFFLEREPLY", "GOSSIP", "IHAVE", "PRUNE", "GRAFT", "ROOT",
        "PIECEANNOUNCE", "PIECE", "PIECEGRAFT", "PIECEOFFER", "PIECEPRUNE",
    }  # fmt: skip
    assert {type(sample) for sample in SAMPLES} == set(get_args(Message))


@pytest.mark.parametrize("message", SAMPLES, ids=lambda message: type(message).__name__)
def test_every_message_is_taken_from_anybody_at_any_time(message: Message) -> None:
    """E42: from a neighbour, a passive peer and a stranger, while joining, as a member, and
    before and after membership; both views keep their rules."""
    member = Member("a", "b", passive=["p", "q"])
    for state in (None, ev.JoinOverlay(("p",)), ev.LeaveOverlay(), ev.JoinOverlay(("p",))):
        if state is not None:
            member.handle(state)
        for peer in ("a", "p", "stranger"):
            member.receive(peer, message)
            tree = member.machine.broadcast
            assert {*tree.eager, *tree.lazy} == member.active
            assert not member.active & member.passive
            assert "me" not in member.active | member.passive
        member.wait(100)


def test_ids_of_any_length_are_ids() -> None:
    """E32, E34, E36: the empty id, short ones and long ones, of messages and of peers."""
    for id in (b"", b"\0", b"short", b"x" * 15, b"x" * 10_000):
        branch = Branch("e", lazy=["l"])
        branch.receive("l", ihave(id))
        branch.receive("l", msg.Graft((id,)))
        branch.wait(2)
        branch.receive("e", msg.Gossip(id, 1, "payload"))
        assert sent(branch.receive("l", msg.Graft((id,)))) == [("l", msg.Gossip(id, 2, "payload"))]
        branch.handle(ev.PayloadArrived("e", id, 1))
        member = Member("a", "b")
        member.handle(ev.Received(id, msg.Join(id, 0)))
        assert id in member.active
