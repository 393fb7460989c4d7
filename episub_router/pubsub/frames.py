"""Frames from an inbound stream, bounded in time and, over all streams, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial

import trio
from libp2p.abc import INetStream
from libp2p.exceptions import ParseError
from libp2p.io.exceptions import IncompleteReadError, MessageTooLarge
from libp2p.network.stream.exceptions import StreamReset

from episub_router.pubsub.window import grant_rarely

_CHUNK = 65_536
"""Bytes read at a time: read byte by byte, a length costs more than a small frame."""

_SMALL = 8_192
"""Bytes: after a read of fewer, the next one waits for more to come."""

_PAUSE = 0.005
"""Seconds from one such read to the next. Chosen: each read is answered with an update of Yamux's
window, and begins a write to each receiver; beyond 200 messages a second they share those."""

_LONGEST_LENGTH = 10
"""Bytes; a varint of 64 bits."""

_GRACE = 0.1
"""Seconds. Chosen: a read that is writing a window update ends in them; cancelled there, it would
use up a nonce of Noise, and the peer could read nothing more."""


class FrameOverdue(Exception):
    """A frame took too long, or others needed the room that it took."""


@dataclass(slots=True, eq=False)
class _Unfinished:
    """One frame that is waited for."""

    scope: trio.CancelScope
    size: int = 0
    """Bytes that have come."""


class UnfinishedFrames:
    """The room that frames take up before their last byte has come."""

    def __init__(self, max_bytes: int, timeout: float) -> None:
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._waiting: dict[_Unfinished, None] = {}
        """The oldest first."""
        self.size = 0
        """Bytes, of all of them."""

    @contextmanager
    def wait(self, held: int) -> Iterator[Callable[[int], None]]:
        """Wait for the rest of a frame of which `held` bytes have come, and call what this gives
        with the length of each further piece. Raises FrameOverdue instead of waiting on."""
        with trio.move_on_after(self._timeout) as scope:
            frame = _Unfinished(scope)
            self._waiting[frame] = None
            try:
                self._grow(frame, held)
                yield partial(self._grow, frame)
            finally:
                del self._waiting[frame]
                self.size -= frame.size
        if scope.cancelled_caught:
            raise FrameOverdue(f"{frame.size} bytes of a frame, and no more")

    def _grow(self, frame: _Unfinished, count: int) -> None:
        frame.size += count
        self.size += count
        excess = self.size - self._max_bytes
        for oldest in self._waiting:
            if excess <= 0:
                return
            oldest.scope.cancel()
            excess -= oldest.size


class FrameReader:
    """Cuts one stream into frames."""

    def __init__(self, stream: INetStream, max_bytes: int, unfinished: UnfinishedFrames) -> None:
        """Frames have `max_bytes` at most."""
        self.stream = stream
        grant_rarely(stream)
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
        length = shift = 0
        for at in range(self._start, min(len(self._buffer), self._start + _LONGEST_LENGTH)):
            byte = self._buffer[at]
            length |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        else:
            if len(self._buffer) - self._start >= _LONGEST_LENGTH:
                raise ParseError("the length of a frame doesn't end")
            return None
        if length > self._max_bytes:
            raise MessageTooLarge(f"{length} bytes announced, {self._max_bytes} allowed")
        end = at + 1 + length
        if end > len(self._buffer):
            return None
        frame = bytes(memoryview(self._buffer)[at + 1 : end])
        self._start = end
        return frame
