"""Frames from an inbound stream, bounded in time and, over all streams, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import trio
from libp2p.abc import INetStream
from libp2p.exceptions import ParseError
from libp2p.io.exceptions import IncompleteReadError, MessageTooLarge
from libp2p.network.stream.exceptions import StreamReset
from libp2p.utils.varint import decode_varint_with_size

from episub_router.util.receive_window import ReceiveWindow

_CHUNK = 65_536
"""Bytes read at a time: read byte by byte, a length costs more than a small frame."""

_SMALL = 8_192
"""Bytes: after a read of fewer, the next one waits for more to come."""

_PAUSE = 0.005
"""Seconds from one such read to the next. Chosen: each read begins a write to each receiver, which
messages share beyond 200 a second."""

_LONGEST_LENGTH = 10
"""Bytes; a varint of 64 bits."""

_GRACE = 0.1
"""Seconds. Chosen: a read that is writing a window update ends in them; cancelled there, it would
use up a nonce of Noise, and the peer could read nothing more."""


class FrameOverdue(Exception):
    """A frame took too long, or others needed the room that it took."""


class UnfinishedFrames:
    """The room that frames take up before their last byte has come."""

    def __init__(self, max_bytes: int, timeout: float) -> None:
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._waiting: dict[trio.CancelScope, int] = {}
        """How many bytes have come of each frame, the oldest first."""
        self.size = 0
        """Bytes, of all of them."""

    @contextmanager
    def wait(self, held: int) -> Iterator[Callable[[int], None]]:
        """Wait for the rest of a frame of which `held` bytes have come, and call what this gives
        with the length of each further piece. Raises FrameOverdue instead of waiting on."""
        with trio.move_on_after(self._timeout) as scope:
            self._waiting[scope] = 0
            try:
                self._grow(scope, held)
                yield partial(self._grow, scope)
            finally:
                size = self._waiting.pop(scope)
                self.size -= size
        if scope.cancelled_caught:
            raise FrameOverdue(f"{size} bytes of a frame, and no more")

    def _grow(self, scope: trio.CancelScope, count: int) -> None:
        self._waiting[scope] += count
        self.size += count
        excess = self.size - self._max_bytes
        for oldest, size in self._waiting.items():
            if excess <= 0:
                return
            oldest.cancel()
            excess -= size


class FrameReader:
    """Cuts one stream into frames."""

    def __init__(self, stream: INetStream, max_bytes: int, unfinished: UnfinishedFrames) -> None:
        """Frames have `max_bytes` at most."""
        self.stream = stream
        self.has_messages = False
        """Whether a frame had messages; their sender is yet to see that they were read."""
        self._window = ReceiveWindow(stream)
        self._max_bytes = max_bytes
        self._unfinished = unfinished
        self._buffer = bytearray()
        self._start = 0
        self._not_before = 0.0
        """When the stream is read next."""
        self._ended = False
        self._scope = trio.CancelScope()
        """Of the last wait."""

    async def end(self) -> None:
        """Reset the stream, and end the wait for it, which Yamux doesn't; frames that have come
        whole can still be read."""
        self._ended = True
        with suppress(Exception):
            await self.stream.reset()
        await trio.sleep(_GRACE)
        self._scope.cancel()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """To wait in. Raises StreamReset from `end` on."""
        with trio.CancelScope() as self._scope:
            if self._ended:
                self._scope.cancel()
            yield
        if self._scope.cancelled_caught:
            raise StreamReset

    async def read(self) -> bytes:
        """The next frame, without its length.

        Raises MessageTooLarge, ParseError (for an endless length), FrameOverdue, and what the
        stream raises at its end.
        """
        frame = self._cut()
        if frame is not None:
            await trio.lowlevel.checkpoint()
            return frame
        if self._start == len(self._buffer):
            await self._fill()
            frame = self._cut()
        if frame is None:
            with self._unfinished.wait(len(self._buffer) - self._start) as grow:
                while frame is None:
                    grow(await self._fill())
                    frame = self._cut()
        assert frame is not None  # else `wait` raised
        return frame

    async def _fill(self) -> int:
        del self._buffer[: self._start]
        self._start = 0
        with self.waiting():
            if self.has_messages and await self._window.answer():
                self.has_messages = False
            await self._window.wait()
            if self._not_before > trio.current_time():
                await trio.sleep_until(self._not_before)
            chunk = await self.stream.read(_CHUNK)
        self._not_before = trio.current_time() + (_PAUSE if len(chunk) < _SMALL else 0)
        if not chunk:
            raise IncompleteReadError("the stream ended inside a frame")
        self._buffer += chunk
        return len(chunk)

    def _cut(self) -> bytes | None:
        """A whole frame from the buffer."""
        head = bytes(self._buffer[self._start : self._start + _LONGEST_LENGTH])
        try:
            length, size = decode_varint_with_size(head)
        except ValueError as error:
            raise ParseError("the length of a frame doesn't end") from error
        if not head or head[size - 1] & 0x80:
            return None
        if length > self._max_bytes:
            raise MessageTooLarge(f"{length} bytes announced, {self._max_bytes} allowed")
        begin = self._start + size
        end = begin + length
        if end > len(self._buffer):
            return None
        frame = bytes(memoryview(self._buffer)[begin:end])
        self._start = end
        return frame
