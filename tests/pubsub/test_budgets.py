"""The parts that bound what one peer may cost: budgets, meters, lanes, frames."""

from __future__ import annotations

from time import thread_time

import pytest
import trio
import trio.testing
from libp2p.io.exceptions import IncompleteReadError, MessageTooLarge
from libp2p.network.stream.exceptions import StreamReset
from libp2p.peer.id import ID
from libp2p.pubsub.pb.rpc_pb2 import Message
from libp2p.utils import encode_varint_prefixed
from trio.testing import MockClock

from episub_router.pubsub import PubsubParams
from episub_router.pubsub.frames import (
    FrameOverdue,
    FrameReader,
    UnfinishedFrames,
)
from episub_router.pubsub.metering import Meter
from episub_router.pubsub.validation_queue import ValidationJob, ValidationQueue
from episub_router.pubsub.validators import MOST_ASSEMBLED, Costs, Validators
from episub_router.util.params import Rate

A, B, C = ID(b"a"), ID(b"b"), ID(b"c")


async def test_what_a_peer_may_cost_is_bounded_and_time_pays(autojump_clock: MockClock) -> None:
    costs = Costs(PubsubParams(work=Rate(200, 1000), faults=Rate(100, 500)))
    costs.charge(A, 2.5)
    assert (costs.wait(A), costs.wait(B)) == (pytest.approx(7.5), 0.0)
    assert not costs.is_bankrupt(A)
    await trio.sleep(5)
    assert costs.wait(A) == pytest.approx(2.5)
    costs.charge(A, -0.5)
    assert costs.wait(A) == 0.0
    costs.charge(A, 0.6, is_faulty=True)
    assert costs.is_bankrupt(A)
    await trio.sleep(2)
    assert not costs.is_bankrupt(A)


async def test_messages_in_pieces_wait_for_room_where_others_are_refused() -> None:
    """Of two of the largest that a neighbour brings at once, the second one was lost."""
    begun: list[int] = []
    go_on = trio.Event()

    async def push(_: ID, message: Message) -> None:
        begun.append(message.data[0])
        await go_on.wait()

    queue = ValidationQueue(1024, 4_000, 20)
    validators = Validators(queue, Costs(PubsubParams()), push)
    large = [Message(data=bytes([number]) + bytes(2_500)) for number in range(MOST_ASSEMBLED + 2)]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(validators.run)
        taken = [validators.put_assembled(A, message) for message in large]
        assert taken == [True] * (MOST_ASSEMBLED + 1) + [False]
        assert validators.put(A, large[-1]) is None
        await trio.testing.wait_all_tasks_blocked()
        assert begun == [0]
        go_on.set()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert begun == [*range(MOST_ASSEMBLED + 1)]


async def test_a_meter_counts_the_steps_of_its_own_work_only() -> None:
    def work(seconds: float) -> None:
        end = thread_time() + seconds
        while thread_time() < end:
            pass

    async def mine() -> str:
        work(0.02)
        await trio.sleep(0.01)
        work(0.02)
        return "done"

    async def others() -> None:
        work(0.2)

    meter = Meter()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(others)
        assert await meter.run(mine()) == "done"
    assert 0.04 <= meter.spent < 0.1


async def test_a_meter_lets_errors_through() -> None:
    async def cancelled() -> None:
        with trio.move_on_after(0):
            await trio.sleep_forever()
        raise LookupError("after it")

    with pytest.raises(LookupError):
        await Meter().run(cancelled())


def job(peer: ID, size: int = 1) -> ValidationJob:
    return ValidationJob(peer, Message(), size)


def test_each_peer_may_use_half_of_what_the_others_leave() -> None:
    queue = ValidationQueue(max_messages=80, max_bytes=10**6, at_once=8)
    put = [sum(queue.put(job(peer)) for _ in range(100)) for peer in (A, B, C)]
    assert put == [40, 20, 10]
    started = []
    while (found := queue.next()) is not None:
        started.append(found)
    assert (
        sorted(one.forwarder.to_bytes() for one in started) == [b"a"] * 2 + [b"b"] * 2 + [b"c"] * 2
    )
    for one in started:
        queue.done(one)
    assert len(queue) == 70 - 6


def test_what_a_peer_does_not_answer_for_has_all_the_room() -> None:
    """A message in pieces would else wait for a moment without any other."""
    queue = ValidationQueue(max_messages=80, max_bytes=100, at_once=8)
    assert queue.put(job(A, 10))
    assert not queue.put(job(A, 60))
    assert queue.put(ValidationJob(A, Message(), 90, is_charged=False))
    assert not queue.put(ValidationJob(A, Message(), 1, is_charged=False))


def test_lanes_are_served_in_turn() -> None:
    queue = ValidationQueue(max_messages=1000, max_bytes=10**6, at_once=2)
    for _ in range(100):
        queue.put(job(A))
    queue.put(job(B))
    served = []
    for _ in range(4):
        found = queue.next()
        assert found is not None
        served.append(found.forwarder)
        queue.done(found)
    assert served == [A, B, A, A]


class Chunks:
    """A stream that gives what it was made of, chunk by chunk, and then waits or ends."""

    def __init__(self, *chunks: bytes, ends: bool = False) -> None:
        self._chunks = list(chunks)
        self._ends = ends

    async def read(self, n: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint()
        if self._chunks:
            return self._chunks.pop(0)
        if self._ends:
            return b""
        await trio.sleep_forever()
        raise AssertionError


def reader(stream: Chunks, room: UnfinishedFrames | None = None) -> FrameReader:
    room = room or UnfinishedFrames(10**6, 60)
    return FrameReader(stream, 1000, room)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 100_000])
async def test_frames_are_cut_wherever_the_chunks_end(
    autojump_clock: trio.testing.MockClock, size: int
) -> None:
    frames = [b"", b"a", bytes(127), bytes(128), bytes(1000), b"end"]
    raw = b"".join(map(encode_varint_prefixed, frames))
    room = UnfinishedFrames(10**6, 60)
    chunks = [raw[start : start + size] for start in range(0, len(raw), size)]
    source = reader(Chunks(*chunks, ends=True), room)
    assert [await source.read() for _ in frames] == frames
    assert room.size == 0
    with pytest.raises(IncompleteReadError):
        await source.read()


async def test_a_frame_that_is_announced_too_long_is_not_waited_for() -> None:
    with pytest.raises(MessageTooLarge):
        await reader(Chunks(encode_varint_prefixed(bytes(1001))[:2])).read()


async def test_frames_that_came_whole_are_read_from_a_superseded_stream(
    autojump_clock: MockClock,
) -> None:
    source = reader(Chunks(b"\x01a\x01b\x02c"))
    assert await source.read() == b"a"
    await source.end()
    assert await source.read() == b"b"
    with pytest.raises(StreamReset):
        await source.read()


async def test_the_oldest_frame_makes_room(autojump_clock: trio.testing.MockClock) -> None:
    room = UnfinishedFrames(max_bytes=900, timeout=60)
    half = encode_varint_prefixed(bytes(1000))[:500]
    overdue = []

    async def read(name: str, delay: float) -> None:
        await trio.sleep(delay)
        try:
            await reader(Chunks(half), room).read()
        except FrameOverdue:
            overdue.append((name, trio.current_time()))

    async with trio.open_nursery() as nursery:
        start = trio.current_time()
        for delay in (0, 1):
            nursery.start_soon(read, str(delay), delay)
    assert [(name, at - start) for name, at in overdue] == [("0", 1.0), ("1", 61.0)]
    assert room.size == 0
