"""Trio's loop in a thread of its own, and calls into it from one asyncio loop."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from inspect import isawaitable
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload
from weakref import WeakKeyDictionary, finalize

import trio

P = ParamSpec("P")
T = TypeVar("T")

MOST_FETCHED = 64
"""Items that wait on the asyncio side for one reader; chosen: those that came in a few wake-ups."""


_HELD = 0.002
"""Seconds that a result waits for others at most while trio is busy. Chosen: each time that asyncio
is woken up costs 0.1 ms of CPU time, and then the two want the interpreter at the same time."""

_ENDED = "nothing runs any more: use this inside of `async with` aio.open or aio.enter"


class TrioThread(trio.abc.Instrument):
    """Runs trio functions for coroutines of the asyncio loop that it is made in.

    It lives from its first user's `enter` to the last one's end. The thread is a daemon: it holds
    up no exit of the process.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._results: list[Callable[[], object]] = []
        """What trio has for asyncio, and when the first of it came."""
        self._first_result = 0.0
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._users = 0
        self._join: Callable[[], object] | None = None
        self._nursery: trio.Nursery
        self._token: trio.lowlevel.TrioToken

    @asynccontextmanager
    async def used(self) -> AsyncIterator[None]:
        """Run while at least one such context is entered."""
        if self._join is None:
            self._join = self._start()
        self._users += 1
        try:
            await asyncio.shield(self._ready)
            yield
        finally:
            self._users -= 1
            if self._users == 0:
                _threads.pop(self._loop, None)
                # Without waiting, as this task may be cancelled once more.
                self._ready.add_done_callback(self._stop)
                await asyncio.shield(self._ended)
                self._join()  # it is at its end

    def _start(self) -> Callable[[], object]:
        """Start trio's loop; the function that waits until it has gone."""
        thread = threading.Thread(target=self._run, name="episub-trio", daemon=True)
        thread.start()
        return thread.join

    @property
    def is_ready(self) -> bool:
        """Whether `call` can be used, now or before."""
        return self._ready.done()

    def _stop(self, ready: asyncio.Future[None]) -> None:
        if ready.exception() is None:
            self.soon(self._nursery.cancel_scope.cancel)

    def _run(self) -> None:
        failure: BaseException | None = None
        try:
            trio.run(self._main, instruments=[self])
        except BaseException as error:
            failure = error
            raise
        finally:
            self._hand_over()
            self.post(self._on_end, failure)

    def _on_end(self, failure: BaseException | None) -> None:
        if not self._ready.done():
            error = RuntimeError("trio has not started")
            error.__cause__ = failure
            self._ready.set_exception(error)
        self._ended.set_result(None)

    async def _main(self) -> None:
        async with trio.open_nursery() as self._nursery:
            self._token = trio.lowlevel.current_trio_token()
            self.post(self._ready.set_result, None)
            await trio.sleep_forever()

    def post(self, function: Callable[..., object], *args: object) -> None:
        """Call `function` in the asyncio loop; not at all if that is closed."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function, *args)

    def give(self, function: Callable[[], object]) -> None:
        """From trio: call `function` in the asyncio loop, together with what else comes in
        this moment."""
        if not self._results:
            self._first_result = time.perf_counter()
        self._results.append(function)

    def before_io_wait(self, timeout: float) -> None:
        """Trio calls this at the end of each turn of its loop."""
        if self._results and (timeout > 0 or time.perf_counter() > self._first_result + _HELD):
            self._hand_over()

    def _hand_over(self) -> None:
        results, self._results = self._results, []
        if results:
            self.post(self._call_all, results)

    def _call_all(self, functions: Iterable[Callable[[], object]]) -> None:
        for function in functions:
            function()

    def soon(self, function: Callable[[], object]) -> bool:
        """Call `function` in trio's loop; False if that has ended."""
        try:
            self._token.run_sync_soon(function)
        except trio.RunFinishedError:
            return False
        return True

    async def call(
        self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Await `function` in trio. Cancelling this cancels that, and waits for its end.

        Raises RuntimeError if the thread has ended.
        """
        done: asyncio.Future[T] = self._loop.create_future()
        scope = trio.CancelScope()

        async def run() -> None:
            end: Callable[[], object] = done.cancel
            try:
                with scope:
                    value = await function(*args, **kwargs)
                    end = partial(done.set_result, value)
            except Exception as error:
                end = partial(done.set_exception, error)
            finally:
                self.give(end)

        def start() -> None:
            try:
                self._nursery.start_soon(run)
            except RuntimeError:  # it is closed
                self.give(partial(done.set_exception, RuntimeError(_ENDED)))

        if not self.soon(start):
            raise RuntimeError(_ENDED)
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            self.soon(scope.cancel)
            await asyncio.wait([done])
            if not done.cancelled():
                done.exception()  # looked at, so that nobody warns
            raise

    @asynccontextmanager
    async def enter(self, make: Callable[[], AbstractAsyncContextManager[T]]) -> AsyncIterator[T]:
        """The context manager of trio's that `make` makes, as one of asyncio's.

        Where the body raises, the context is cancelled; where the context ends with an error, the
        body is cancelled and the error is raised.
        """
        entered: asyncio.Future[T] = self._loop.create_future()
        leave = trio.Event()
        leaving = died = False

        async def hold() -> None:
            async with make() as value:
                self.give(partial(entered.set_result, value))
                await leave.wait()

        body = asyncio.current_task()
        held = asyncio.ensure_future(self.call(hold))

        def on_end(ended: asyncio.Future[None]) -> None:
            nonlocal died
            _ = ended.cancelled() or ended.exception()  # looked at, so that nobody warns
            if not leaving and entered.done() and body is not None:
                died = body.cancel()

        held.add_done_callback(on_end)
        try:
            first: list[asyncio.Future[Any]] = [entered, held]
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if not entered.done():
                await held
            yield entered.result()
            leaving = True
            if died:
                await asyncio.sleep(0)  # where the cancellation comes out
        except BaseException as error:
            leaving = True
            held.cancel()
            await asyncio.wait([held])
            cancelled = isinstance(error, asyncio.CancelledError)
            if died and body is not None and body.uncancel() == 0 and cancelled:
                await held
            raise
        self.soon(leave.set)
        await held

    def from_asyncio(self, function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        """`function`, which is asyncio's, for calls from trio."""

        async def run(*args: P.args, **kwargs: P.kwargs) -> T:
            done = trio.Event()
            result: list[asyncio.Task[T]] = []

            async def main() -> T:
                return await function(*args, **kwargs)

            def start() -> None:
                task = self._loop.create_task(main())
                result.append(task)
                task.add_done_callback(lambda _: self.soon(done.set))

            def cancel() -> None:
                for task in result:
                    task.cancel()

            self.post(start)
            try:
                await done.wait()
            except trio.Cancelled:
                self.post(cancel)
                raise
            [task] = result
            if task.cancelled():
                # In trio, asyncio's cancellation would end the node.
                raise RuntimeError(f"{function!r} was cancelled in asyncio")
            return task.result()

        return run


class _Fetched(Generic[T]):
    """What was fetched from trio and not read yet."""

    def __init__(self, thread: TrioThread) -> None:
        self.items: deque[T] = deque()
        self.there = asyncio.Event()
        self.room: trio.Event | None = None
        """Set when half of the items are read; the fetching may wait for it."""
        self._thread = thread

    async def fetch(self, take: Callable[[], Awaitable[Sequence[T]]]) -> None:
        """Fetch all that `take` gives, until it gives nothing."""
        while items := await take():
            self.items.extend(items)
            self._thread.give(self.there.set)
            if len(self.items) >= MOST_FETCHED:
                self.room = room = trio.Event()
                if len(self.items) >= MOST_FETCHED:
                    await room.wait()


class Iteration(AsyncIterator[T], Generic[T]):
    """Items that `take` gets in trio, one or several at a time, and none at their end.

    They are fetched before they are asked for, so a reader that is cancelled, as by a time-out,
    loses none.
    """

    def __init__(self, thread: TrioThread, take: Callable[[], Awaitable[Sequence[T]]]) -> None:
        self._thread = thread
        self._fetched: _Fetched[T] = _Fetched(thread)
        self._fetching = asyncio.ensure_future(thread.call(self._fetched.fetch, take))
        there = self._fetched.there
        self._fetching.add_done_callback(lambda _: there.set())
        finalize(self, thread.post, self._fetching.cancel)

    def __aiter__(self) -> Iteration[T]:
        return self

    async def __anext__(self) -> T:
        fetched = self._fetched
        while not fetched.items:
            if self._fetching.cancelled():
                raise StopAsyncIteration
            if self._fetching.done():
                self._fetching.result()
                raise StopAsyncIteration
            fetched.there.clear()
            await fetched.there.wait()
        item = fetched.items.popleft()
        # While the fetching waits nothing is added: this comes by once for each `room`.
        if len(fetched.items) == MOST_FETCHED // 2 and fetched.room is not None:
            self._thread.soon(fetched.room.set)
        return item


_threads: WeakKeyDictionary[asyncio.AbstractEventLoop, TrioThread] = WeakKeyDictionary()
"""One for each asyncio loop, so that all contexts of a loop share their objects."""


def thread_of_the_loop() -> TrioThread:
    """The thread of the running asyncio loop; not started yet if nobody uses it."""
    loop = asyncio.get_running_loop()
    if loop not in _threads:
        _threads[loop] = TrioThread()
    return _threads[loop]


def _running() -> TrioThread:
    thread = _threads.get(asyncio.get_running_loop())
    if thread is None or not thread.is_ready:
        raise RuntimeError(
            "nothing runs yet: use this inside of `async with` aio.open or aio.enter"
        )
    return thread


@asynccontextmanager
async def enter(make: Callable[[], AbstractAsyncContextManager[T]]) -> AsyncIterator[T]:
    """Enter the trio context manager that `make` returns, in an asyncio task.

    `make` is called in trio. Use what the context manager gives through `call` and `iterate`.
    """
    thread = thread_of_the_loop()
    async with thread.used(), thread.enter(make) as value:
        yield value


@overload
async def call(function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T: ...
@overload
async def call(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T: ...
async def call(function: Callable[P, Awaitable[T] | T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in trio, such as a method of what `enter` gave, and await an async one."""

    async def run() -> T:
        value = function(*args, **kwargs)
        return cast(T, await value if isawaitable(value) else value)

    return await _running().call(run)


def iterate(items: AsyncIterator[T]) -> AsyncIterator[T]:
    """The items of a trio iterator. A time-out while waiting for one loses none."""

    async def take() -> Sequence[T]:
        async for item in items:
            return (item,)
        return ()

    return Iteration(_running(), take)
