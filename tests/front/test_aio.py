"""`episub_router.aio`: the package under asyncio."""

from __future__ import annotations

import ast
import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import partial, wraps
from typing import Any, ParamSpec, cast
from unittest.mock import patch

import pytest
import trio
from libp2p import new_host
from libp2p.peer.id import ID
from libp2p.pubsub.pb.rpc_pb2 import Message
from libp2p.pubsub.pubsub import Pubsub

from episub_router import (
    EpisubRouter,
    Joined,
    Lagged,
    NodeStopped,
    NotJoined,
    PubsubParams,
    ResilientPubsub,
    aio,
)
from episub_router.aio.trio_thread import MOST_FETCHED, Iteration, thread_of_the_loop
from episub_router.pubsub.subscription import Item
from episub_router.sds import SdsChannel
from tests.children import child
from tests.docs.snippets import ROOT, snippets
from tests.hosts import PATIENCE

pytestmark = pytest.mark.hosts


P = ParamSpec("P")


def under_asyncio(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Runs a test in a loop of asyncio's, and looks for what it leaves behind."""

    @wraps(test)
    def run(*given: P.args, **named: P.kwargs) -> None:
        asyncio.run(asyncio.wait_for(test(*given, **named), PATIENCE))
        assert not [thread for thread in threading.enumerate() if thread.name == "episub-trio"]

    return run


def data(item: Item) -> bytes:
    assert isinstance(item, Message)
    return item.data


@under_asyncio
async def test_two_nodes_of_a_topic() -> None:
    async with (
        aio.open("news") as one,
        aio.open("news", bootstrap=one.addresses) as two,
    ):
        events = two.events()
        for topic in (one, two):
            await topic.joined(PATIENCE)
        assert two.neighbors == (one.pubsub.my_id,)
        assert isinstance([await anext(events) for _ in range(2)][1], Joined)
        await one.publish(b"hello")
        await one.publish_nowait(b"again")
        assert [data(await anext(two)) for _ in range(2)] == [b"hello", b"again"]
        assert len([t for t in threading.enumerate() if t.name == "episub-trio"]) == 1
    assert [item async for item in two] == []


@under_asyncio
async def test_a_reader_that_times_out_loses_nothing() -> None:
    async with aio.open("news") as topic:
        for number in range(200):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(topic), 0.0001)
            await topic.publish(bytes([number]))
            assert data(await anext(topic)) == bytes([number])


@under_asyncio
async def test_an_error_of_the_body_comes_out_as_itself() -> None:
    with pytest.raises(KeyError, match="mine"):
        async with aio.open("news"):
            raise KeyError("mine")


@under_asyncio
async def test_what_can_not_start_is_raised() -> None:
    async with aio.open("news") as one:
        taken = str(one.addresses[0]).partition("/p2p/")[0]
        with pytest.raises(OSError, match="can't listen on"):
            async with aio.open("news", listen=[taken]):
                pass
        with pytest.raises(ValueError, match="'news' is subscribed already"):
            async with aio.open("news", pubsub=one.pubsub):
                pass
        async with aio.open("sport", pubsub=one.pubsub):
            with pytest.raises(NotJoined):
                await one.joined(timeout=0.01)


@under_asyncio
async def test_cancelling_a_task_leaves_the_topic() -> None:
    entered, left = asyncio.Event(), asyncio.Event()

    async def use() -> None:
        try:
            async with aio.open("news") as topic:
                entered.set()
                await anext(topic)
        finally:
            left.set()

    async with aio.open("lobby"):
        for before in (entered, asyncio.sleep(0.05)):
            task = asyncio.create_task(use())
            await (before.wait() if isinstance(before, asyncio.Event) else before)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert left.is_set()


@under_asyncio
async def test_cancelling_a_call_cancels_it_in_trio() -> None:
    cancelled = threading.Event()

    async def forever() -> None:
        try:
            await trio.sleep_forever()
        except trio.Cancelled:
            cancelled.set()
            raise

    async with aio.open("news"):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(aio.call(forever), 0.1)
        assert cancelled.is_set()
    with pytest.raises(RuntimeError, match="nothing runs yet"):
        await aio.call(forever)


@under_asyncio
async def test_a_node_that_dies_ends_the_body() -> None:
    async def broken() -> None:
        raise RuntimeError("broken")

    async def spoil(pubsub: ResilientPubsub) -> None:
        pubsub.manager.run_task(broken)

    with pytest.raises(NodeStopped, match="broken"):  # noqa: PT012
        async with aio.open("news") as topic:
            await aio.call(spoil, topic.pubsub)
            await asyncio.sleep(PATIENCE)
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


@pytest.mark.parametrize("is_object", [False, True])
@under_asyncio
async def test_a_validator_of_asyncio_s(is_object: bool) -> None:
    async def is_a_number(_: ID, message: Message) -> bool:
        await asyncio.sleep(0.001)
        return message.data.isdigit()

    class IsANumber:
        async def __call__(self, forwarder: ID, message: Message) -> bool:
            return await is_a_number(forwarder, message)

    validator = IsANumber() if is_object else is_a_number
    async with (
        aio.open("numbers", validator=validator) as one,
        aio.open("numbers", bootstrap=one.addresses) as two,
    ):
        for topic in (one, two):
            await topic.joined(PATIENCE)
        for number in (b"1", b"two", b"3"):
            await two.publish(number)
        # Both are validated at the same time.
        assert sorted([data(await anext(one)) for _ in range(2)]) == [b"1", b"3"]


@under_asyncio
async def test_a_function_of_asyncio_s_that_is_cancelled_is_an_error_in_trio() -> None:
    """asyncio's cancellation would pass all of the node's own handlers, and end it."""

    async def cancelled() -> None:
        raise asyncio.CancelledError

    async with aio.enter(trio.open_nursery):
        with pytest.raises(RuntimeError, match="was cancelled in asyncio"):
            await aio.call(thread_of_the_loop().from_asyncio(cancelled))


@under_asyncio
async def test_a_reader_that_is_behind_gets_all() -> None:
    """However the two threads take turns: trio's may fetch on as soon as it is notified."""
    most = 8 * MOST_FETCHED
    ended = threading.Event()

    async def numbers() -> AsyncIterator[int]:
        for number in range(most):
            await trio.lowlevel.checkpoint()
            yield number
        ended.set()

    async with aio.enter(trio.open_nursery):
        reader = cast("Iteration[int]", aio.iterate(numbers()))
        fetched, soon = reader._fetched, reader._thread.soon

        def soon_and_see(function: Callable[[], object]) -> bool:
            room, done = fetched.room, soon(function)
            while fetched.room is room and not ended.wait(0.001):
                pass
            return done

        with patch.object(reader._thread, "soon", soon_and_see):
            assert [item async for item in reader] == [*range(most)]


@under_asyncio
async def test_what_trio_has_at_one_moment_wakes_asyncio_once() -> None:
    """Each time costs a tenth of a millisecond of CPU time."""
    async with aio.enter(trio.open_nursery):
        thread = thread_of_the_loop()
        given: list[int] = []

        async def give() -> None:
            for number in range(50):
                thread.give(partial(given.append, number))

        with patch.object(thread, "post", wraps=thread.post) as post:
            await aio.call(give)
        assert given == [*range(50)]
        assert post.call_count == 1


@under_asyncio
async def test_what_has_ended_is_not_called_any_more() -> None:
    opening = asyncio.create_task(aio.enter(trio.open_nursery).__aenter__())
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="nothing runs yet"):
        await aio.call(trio.sleep, 0)
    opening.cancel()
    await asyncio.wait([opening])
    async with aio.enter(trio.open_nursery):
        thread = thread_of_the_loop()
        await thread.call(trio.sleep, 0)
    with pytest.raises(RuntimeError, match="nothing runs any more"):
        await thread.call(trio.sleep, 0)


@under_asyncio
async def test_a_task_that_is_cancelled_twice_leaves_no_thread() -> None:
    cancelled, trio_run = threading.Event(), trio.run

    def late(main: Callable[[], Coroutine[Any, Any, None]], **options: Any) -> None:
        cancelled.wait(PATIENCE)
        trio_run(main, **options)

    async def use() -> None:
        async with aio.enter(trio.open_nursery):
            pass

    with patch.object(trio, "run", late):
        task = asyncio.create_task(use())
        await asyncio.sleep(0)
    [thread] = [each for each in threading.enumerate() if each.name == "episub-trio"]
    for _ in range(2):
        task.cancel()
        await asyncio.sleep(0)
    cancelled.set()
    await asyncio.wait([task])
    assert task.cancelled()
    await asyncio.to_thread(thread.join, PATIENCE)
    assert not thread.is_alive()


@under_asyncio
async def test_a_trio_that_can_not_start() -> None:
    with (
        patch.object(trio, "run", side_effect=OSError("too many open files")),
        patch.object(threading, "excepthook"),
        pytest.raises(RuntimeError, match="trio has not started") as caught,
    ):
        async with aio.enter(trio.open_nursery):
            pass
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize("pubsub_class", [ResilientPubsub, Pubsub])
@under_asyncio
async def test_trio_s_classes_under_asyncio_say_what_to_use(pubsub_class: type[Pubsub]) -> None:
    with pytest.raises(RuntimeError, match=r"use episub_router\.aio"):
        pubsub_class(new_host(), EpisubRouter())


@under_asyncio
async def test_trio_s_methods_under_asyncio_say_what_to_use() -> None:
    async with aio.open("news") as topic:
        router, pubsub, me = topic.router, topic.pubsub, topic.pubsub.my_id
        for use in (
            lambda: pubsub.publish("news", b"hello"),
            lambda: pubsub.subscribe("sport"),
            lambda: pubsub.unsubscribe("news"),
            lambda: router.joined("news"),
            lambda: router.wait_for_mesh(me, "news"),
            lambda: router.mesh_changed(),
            lambda: router.wait_for_room(),
            lambda: SdsChannel(pubsub, "room").__aenter__(),
        ):
            with pytest.raises(RuntimeError, match=r"use episub_router\.aio"):
                await asyncio.wait_for(cast(Any, use)(), PATIENCE)
        for use_now in (
            lambda: router.overlay("news"),
            lambda: router.set_standing(me, 1.0),
        ):
            with pytest.raises(RuntimeError, match=r"use episub_router\.aio"):
                cast(Any, use_now)()


@under_asyncio
async def test_a_function_that_is_not_async_is_called_in_trio() -> None:
    async with aio.open("news") as topic:
        assert (await aio.call(topic.router.overlay, "news")).topic == "news"
        await aio.call(topic.router.set_standing, topic.pubsub.my_id, 1.0)


@under_asyncio
async def test_a_reader_that_is_behind_is_told_what_it_missed() -> None:
    async with aio.open("news", pubsub_params=PubsubParams(subscription_buffer=1)) as topic:

        async def flood() -> None:
            # Without a checkpoint between them, so that nothing is fetched meanwhile; the
            # first goes to the reader itself if that waits already.
            for number in range(9):
                message = Message(data=bytes([number]), topicIDs=["news"])
                topic.pubsub.notify_subscriptions(message)

        await aio.call(flood)
        assert data(await anext(topic)) == b"\0"
        item = await anext(topic)
        if isinstance(item, Message):
            assert item.data == b"\1"
            assert await anext(topic) == Lagged(7)
        else:
            assert item == Lagged(8)


@under_asyncio
async def test_the_cells_of_a_notebook() -> None:
    cells = [
        s for s in snippets(ROOT / "docs" / "asyncio.md") if "runs the cells" in (s.no_run or "")
    ]
    assert len(cells) == 3
    names: dict[str, Any] = {}
    async with aio.open("news") as other:
        for cell in cells:
            text = cell.text.replace("/ip4/...", str(other.addresses[0]))
            code = compile(text, str(cell), "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            # Each cell is a task of its own, as in a notebook.
            made = eval(code, names)
            if made is not None:
                await asyncio.create_task(made)
        assert data(await anext(other)) == b"from a notebook"


_INTERRUPTED = """
import asyncio
from episub_router import aio

async def main():
    try:
        async with aio.open("news") as topic:
            print("open", flush=True)
            await anext(topic)
    finally:
        print("closed", flush=True)

asyncio.run(main())
"""


def test_ctrl_c() -> None:
    with child(
        [sys.executable, "-c", _INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert out == "closed\n"
    assert err.splitlines()[-1] == "KeyboardInterrupt"
