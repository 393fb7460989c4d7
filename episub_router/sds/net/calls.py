"""Calls of a host: each a request and its answer, on streams that carry one after another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import trio
from libp2p.abc import IHost, INetStream
from libp2p.custom_types import TProtocol
from libp2p.io.exceptions import IncompleteReadError
from libp2p.network.stream.exceptions import StreamEOF
from libp2p.peer.id import ID
from libp2p.utils.varint import decode_varint_with_size

from episub_router.sds.wire.exchange import PROTOCOL
from episub_router.util.kept import one_for_each

_READ = 65_536
_LENGTH = 5
"""Bytes of a frame's length, at most."""


class IncomingFrames:
    """The frames of a stream, each after its length.

    py-libp2p reads a length byte by byte, and grants the other side room again, in a message of its
    own, after each read: that would cost more than request and answer.
    """

    def __init__(self, stream: INetStream) -> None:
        self._stream = stream
        self._data = bytearray()

    def has_next(self) -> bool:
        """Whether one is there already, or what is there is none."""
        try:
            found = self._lengths()
        except ValueError:
            return True
        return found is not None and len(self._data) >= sum(found)

    async def next(self, limit: int) -> bytes:
        """The next one. Raises IncompleteReadError at the end, and ValueError for what is no
        length, or one above `limit`."""
        while (found := self._lengths()) is None:
            await self._read()
        size, start = found
        if size > limit:
            raise ValueError(f"a frame of {size} bytes, at most {limit} are read")
        while len(self._data) < start + size:
            await self._read()
        frame = bytes(self._data[start : start + size])
        del self._data[: start + size]
        return frame

    def _lengths(self) -> tuple[int, int] | None:
        """Bytes of the next frame, and of its length in front; None where that isn't all there."""
        head = bytes(self._data[:_LENGTH])
        size, start = decode_varint_with_size(head)
        if head and head[start - 1] < 0x80:
            return size, start
        if len(head) == _LENGTH:
            raise ValueError("a length of a frame that never ends")
        return None

    async def _read(self) -> None:
        data = await self._stream.read(_READ)
        if not data:
            raise IncompleteReadError("the stream ended")
        self._data += data


MANY = TProtocol(PROTOCOL)
LINGER = 20.0
"""Seconds for which a stream is kept for the next request, longer than between two times at which
idle channels compare: to open a stream costs as much as ten requests (chosen)."""
_GRACE = 1.0
"""Seconds after a reset until what still reads there is cancelled: py-libp2p wakes no reader."""
_RESET_TIMEOUT = 30.0
CLOSING = 10.0
"""Seconds for which a stream whose side here is closed waits for the other side's end (chosen)."""


@dataclass(eq=False, slots=True)
class Call:
    """One request and what came of it: `data`, or an `error`, once it is `done`."""

    request: bytes
    max_size: int
    done: trio.Event = field(default_factory=trio.Event)
    data: bytes = b""
    error: Exception | None = None
    left: bool = False
    on: CallStream | None = None

    def leave(self) -> None:
        """Nobody waits for the answer any more: where it isn't there, the stream is reset."""
        self.left = not self.done.is_set()
        if self.left and self.on is not None:
            trio.lowlevel.spawn_system_task(self.on.end)


class CallStream:
    """The stream of one host to a peer. It carries calls in turns, of which each takes all that
    wait, in a task that nobody cancels.

    A write of py-libp2p that is cancelled has used a nonce of the connection's encryption and sent
    nothing, after which the other side can read no more: all that goes on between two hosts would
    end with one request that took too long. A call that is left resets its stream first.
    """

    def __init__(self, streams: dict[ID, CallStream], peer: ID) -> None:
        self._streams = streams
        self._peer = peer
        self._waiting: list[Call] = []
        self._posted = trio.Event()
        self._stream: INetStream | None = None
        self._frames: IncomingFrames | None = None
        self._reading = trio.CancelScope()

    def post(self, call: Call) -> None:
        """Carry a call in the next turn."""
        self._waiting.append(call)
        self._posted.set()

    async def run(self, host: IHost) -> None:
        """Until no call has come for a while."""
        while self._waiting:
            calls, self._waiting = self._waiting, []
            try:
                await self._carry(host, calls)
            finally:
                for call in calls:
                    call.done.set()
            if self._stream is not None and not self._waiting:
                self._posted = trio.Event()
                with trio.move_on_after(LINGER):
                    await self._posted.wait()
        self._leave()
        if self._stream is not None:
            await quiet_close(self._stream)

    async def end(self) -> None:
        """A call that is on the stream was left."""
        stream, reading = self._stream, self._reading
        if stream is None:
            self._leave()  # it is being opened, which may take for ever: others need another one
            return
        await quiet_reset(stream)
        await trio.sleep(_GRACE)
        reading.cancel()

    def _leave(self) -> None:
        if self._streams.get(self._peer) is self:
            del self._streams[self._peer]

    async def _carry(self, host: IHost, calls: list[Call]) -> None:
        """The answers to all calls, or errors.

        Where the stream was kept, and may have ended meanwhile, or another call on it was left, a
        new stream carries those without an answer.
        """
        again = True
        while again:
            kept, before = self._stream is not None, calls
            try:
                await self._answers(host, calls)
                again = False
            except Exception as error:  # py-libp2p's layers raise many unrelated types
                await self._give_up()
                calls = [c for c in before if not c.done.is_set() and not c.left]
                again = bool(calls) and (kept or len(calls) < len(before))
                for call in calls:
                    call.error = None if again else error
        if any(call.left for call in calls):
            await self._give_up()

    async def _answers(self, host: IHost, calls: list[Call]) -> None:
        for call in calls:
            call.on = self
        if self._stream is None or self._frames is None:
            self._stream = await host.new_stream(self._peer, [MANY])
            self._frames = IncomingFrames(self._stream)
        calls = [call for call in calls if not call.left]
        reading = self._reading = trio.CancelScope()  # which one left while it is written ends too
        if calls:
            await self._stream.write(b"".join(call.request for call in calls))
        with reading:
            for call in calls:
                call.data = await self._frames.next(call.max_size)
                call.done.set()
        if reading.cancelled_caught:
            raise ConnectionError("the stream was reset, as a request on it took too long")

    async def _give_up(self) -> None:
        stream, self._stream = self._stream, None
        if stream is not None:
            await quiet_reset(stream)


streams_of: Callable[[IHost], dict[ID, CallStream]] = one_for_each(lambda host: {})
"""By peer, those that carry a call or are kept for the next one."""


def carry(host: IHost, peer: ID, call: Call) -> None:
    """Let the stream to `peer` carry a call."""
    streams = streams_of(host)
    stream = streams.get(peer)
    if stream is None:
        stream = streams[peer] = CallStream(streams, peer)
        trio.lowlevel.spawn_system_task(stream.run, host)
    stream.post(call)


async def quiet_reset(stream: INetStream) -> None:
    with trio.CancelScope(shield=True, deadline=trio.current_time() + _RESET_TIMEOUT):
        try:
            await stream.reset()
        except Exception:
            return  # already gone


async def quiet_close(stream: INetStream) -> None:
    """Close our side, wait for the other one's end, and reset a stream that the peer leaves open:
    py-libp2p would keep it for as long as the connection lasts."""
    with trio.move_on_after(CLOSING):
        try:
            await stream.close()
            while await stream.read(_READ):
                pass
        except StreamEOF:
            return
        except Exception:
            pass
    await quiet_reset(stream)
