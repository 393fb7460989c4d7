"""A publisher waits for its receivers, and not for one that holds up the others."""

from __future__ import annotations

import pytest
import trio
from libp2p.peer.id import ID
from trio.testing import MockClock

from episub_router import BacklogFull, RouterParams
from episub_router.net.backlog import Backlog
from episub_router.net.peers import RemotePeer
from episub_router.net.publish_room import PublishRoom

MESSAGE = 4000
PACE = 0.05


def receiver(name: bytes) -> RemotePeer:
    return RemotePeer(ID(name), Backlog(256, 2**20), 0)


class Publishing:
    """A publisher, and receivers that answer queries after as many seconds as a test says."""

    def __init__(self, answers: dict[RemotePeer, float], nursery: trio.Nursery) -> None:
        self._answers = answers
        self._nursery = nursery
        self.room = PublishRoom(RouterParams(), lambda *_: False, self._query)
        self.room.receivers.append(lambda topic: answers)

    def _query(self, topic: str, peer: RemotePeer) -> bool:
        self._nursery.start_soon(self._answer, peer)
        return True

    async def _answer(self, peer: RemotePeer) -> None:
        await trio.sleep(self._answers[peer])
        peer.send_window.note_read(trio.current_time())

    async def waits(self, count: int) -> list[float]:
        """Publish `count` messages, one each `PACE` seconds; how long each had to wait."""
        waits = []
        for _ in range(count):
            since = trio.current_time()
            async with self.room.reserve(["t"], MESSAGE, None):
                waits.append(trio.current_time() - since)
            await trio.sleep(PACE)
        return waits


@pytest.mark.parametrize("answer", [29.0, 4.9])
async def test_one_receiver_does_not_hold_back_those_that_keep_up(
    autojump_clock: MockClock, answer: float
) -> None:
    """One that answers each query after 29 s let 398 of 720 messages go out in 36 s."""
    async with trio.open_nursery() as nursery:
        answers = {receiver(b"slow"): answer, receiver(b"a"): 0.01, receiver(b"b"): 0.01}
        waits = await Publishing(answers, nursery).waits(2400)
        nursery.cancel_scope.cancel()
    at_once = RouterParams().stall_timeout
    assert max(waits) <= at_once + 0.1
    assert sum(waits) <= at_once + 0.25 * 2400 * PACE + 1


async def test_receivers_that_are_all_slow_are_waited_for(autojump_clock: MockClock) -> None:
    async with trio.open_nursery() as nursery:
        slow = receiver(b"slow")
        waits = await Publishing({slow: 3.0}, nursery).waits(1000)
        nursery.cancel_scope.cancel()
    assert slow.send_window.behind <= slow.send_window.size
    assert sum(waits) > 1


async def test_a_topic_without_room_holds_up_no_other(autojump_clock: MockClock) -> None:
    room = PublishRoom(RouterParams(), lambda *_: False, lambda *_: True)
    full, idle = receiver(b"full"), receiver(b"idle")
    full.send_window.note_sent(2**30)
    room.receivers.append(lambda topic: [full] if topic == "full" else [idle])

    async def publish() -> None:
        async with room.reserve(["full"], MESSAGE, None):
            pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(publish)
        await trio.sleep(1)
        async with room.reserve(["other"], MESSAGE, 0):
            pass
        with pytest.raises(BacklogFull):
            async with room.reserve(["full"], MESSAGE, 0):
                pass
        nursery.cancel_scope.cancel()


async def test_a_receiver_of_several_topics_is_waited_for_as_long_as_one_of_one(
    autojump_clock: MockClock,
) -> None:
    room = PublishRoom(RouterParams(), lambda *_: False, lambda *_: True)
    slow, idle = receiver(b"slow"), receiver(b"idle")
    slow.send_window.note_sent(2**30)
    room.receivers.append(lambda topic: [slow, idle])
    admitted = []

    async def publish(topic: str) -> None:
        async with room.reserve([topic], MESSAGE, None):
            admitted.append(trio.current_time() - since)

    since = trio.current_time()
    async with trio.open_nursery() as nursery:
        for topic in ("one", "two", "three"):
            nursery.start_soon(publish, topic)
    assert min(admitted) > 0.7 * RouterParams().stall_timeout
