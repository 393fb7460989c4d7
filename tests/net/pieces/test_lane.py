"""Pieces wait behind everything else for their peer, and short messages before long ones."""

from __future__ import annotations

from dataclasses import dataclass

from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.rpc_queue import RpcQueue

from episub_router.net import backlog as module
from episub_router.net.backlog import Backlog
from tests.net.fakes import pop


@dataclass(frozen=True)
class Item:
    name: str
    size: int = 10
    is_control: bool = False

    def push_to(self, queue: RpcQueue) -> bool:
        return queue.push(rpc_pb2.RPC(publish=[rpc_pb2.Message(data=self.name.encode())]))


def filled(*names: str) -> Backlog:
    lane = Backlog(4, 100)
    for name in names:
        assert lane.add_piece("t", name[0], int(name[1:]), Item(name))
    return lane


def drained(lane: Backlog, queue: RpcQueue) -> list[str]:
    found = []
    while lane or len(queue):
        lane.flush(queue)
        found.append(pop(queue).publish[0].data.decode())
    return found


def test_pieces_wait_until_all_else_is_sent() -> None:
    lane = filled("a1")
    assert lane.send(Item("m1"), None)
    assert lane.send(Item("c1", is_control=True), None)
    assert (len(lane), lane.messages, lane.pieces) == (3, 2, 1)
    assert drained(lane, RpcQueue(max_size=1)) == ["c1", "m1", "a1"]


def test_short_messages_go_first_and_each_keeps_its_order() -> None:
    lane = filled("a1", "a2", "a3", "b1", "b2", "c1")
    assert (lane.pieces, lane.piece_bytes) == (6, 60)
    assert drained(lane, RpcQueue()) == ["c1", "b1", "b2", "a1", "a2", "a3"]
    assert (lane.pieces, lane.piece_bytes) == (0, 0)


def test_what_will_follow_counts_as_well() -> None:
    lane = Backlog(1, 1)
    assert lane.add_piece("t", "a", 1, Item("a1"), more=3)
    assert lane.add_piece("t", "b", 1, Item("b1"), more=2)
    assert drained(lane, RpcQueue()) == ["b1", "a1"]


def test_few_wait_in_the_queue_that_others_share() -> None:
    lane, queue = filled("a1", "a2", "a3"), RpcQueue()
    lane.flush(queue)
    assert (len(queue), len(lane)) == (2, 1)
    lane.flush(queue)
    assert (len(queue), len(lane)) == (2, 1)


def test_what_is_wanted_no_more_is_forgotten() -> None:
    lane = filled("a1", "b1", "b2")
    assert lane.add_piece("u", "b", 1, Item("other topic"))
    lane.forget_pieces("t", {"b", "unknown"})
    assert (lane.pieces, lane.piece_bytes) == (2, 20)
    lane.forget_pieces("t")
    assert drained(lane, RpcQueue()) == ["other topic"]


def test_a_piece_that_waits_already_is_sent_once() -> None:
    lane = filled("a1", "a2", "a1", "a2", "a3")
    assert (lane.pieces, lane.piece_bytes) == (3, 30)
    assert drained(lane, RpcQueue()) == ["a1", "a2", "a3"]
    assert lane.piece_bytes == 0


def test_bytes_are_bounded() -> None:
    lane = Backlog(1, 1)
    assert lane.add_piece("t", "a", 0, Item("large", module.MAX_LANE_BYTES))
    assert not lane.add_piece("t", "b", 1, Item("b1"))
    assert lane.clear() == 1
    assert lane.add_piece("t", "b", 1, Item("b1"))
