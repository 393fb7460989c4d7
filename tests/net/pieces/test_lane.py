"""Pieces wait behind everything else for their peer, and short messages before long ones."""

from __future__ import annotations

from dataclasses import dataclass

from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.rpc_queue import RpcQueue

from episub_router.net import backlog as module
from episub_router.net.backlog import PieceLane
from tests.net.fakes import pop


@dataclass(frozen=True)
class Item:
    name: str
    size: int = 10
    is_control: bool = False

    def push_to(self, queue: RpcQueue) -> bool:
        return queue.push(rpc_pb2.RPC(publish=[rpc_pb2.Message(data=self.name.encode())]))


def filled(*names: str) -> PieceLane:
    lane = PieceLane()
    for name in names:
        assert lane.put("t", name[0], int(name[1:]), Item(name))
    return lane


def drained(lane: PieceLane, queue: RpcQueue) -> list[str]:
    found = []
    while lane or len(queue):
        lane.flush(queue)
        found.append(pop(queue).publish[0].data.decode())
    return found


def test_short_messages_go_first_and_each_keeps_its_order() -> None:
    lane = filled("a1", "a2", "a3", "b1", "b2", "c1")
    assert (len(lane), lane.size) == (6, 60)
    assert drained(lane, RpcQueue()) == ["c1", "b1", "b2", "a1", "a2", "a3"]
    assert (len(lane), lane.size, lane.pushed) == (0, 0, 6)


def test_what_will_follow_counts_as_well() -> None:
    lane = PieceLane()
    assert lane.put("t", "a", 1, Item("a1"), more=3)
    assert lane.put("t", "b", 1, Item("b1"), more=2)
    assert drained(lane, RpcQueue()) == ["b1", "a1"]


def test_few_wait_in_the_queue_that_others_share() -> None:
    lane, queue = filled("a1", "a2", "a3"), RpcQueue()
    lane.flush(queue)
    assert (len(queue), len(lane)) == (2, 1)
    lane.flush(queue)
    assert (len(queue), len(lane)) == (2, 1)


def test_what_is_wanted_no_more_is_forgotten() -> None:
    lane = filled("a1", "b1", "b2")
    assert lane.put("u", "b", 1, Item("other topic"))
    lane.forget("t", {"b", "unknown"})
    assert (len(lane), lane.size) == (2, 20)
    lane.forget("t")
    assert drained(lane, RpcQueue()) == ["other topic"]


def test_a_piece_that_waits_already_is_sent_once() -> None:
    lane = filled("a1", "a2", "a1", "a2", "a3")
    assert (len(lane), lane.size) == (3, 30)
    assert drained(lane, RpcQueue()) == ["a1", "a2", "a3"]
    assert lane.size == 0


def test_bytes_are_bounded() -> None:
    lane = PieceLane()
    assert lane.put("t", "a", 0, Item("large", module.MAX_LANE_BYTES))
    assert not lane.put("t", "b", 1, Item("b1"))
    assert lane.clear() == 1
    assert lane.put("t", "b", 1, Item("b1"))
