"""Yamux's window of a stream, granted anew now and then.

libp2p 0.8.1 answers each read with a window update: a frame, a Noise message and a system call at
each end, a fifth of what a small message costs, and half of the frames of a dial.
"""

from __future__ import annotations

import trio
from libp2p.abc import INetStream
from libp2p.stream_muxer.yamux.yamux import MAX_WINDOW_SIZE, YamuxStream

_INTERVAL = 1.5
"""Seconds from one answer to the next; chosen: half of what a sender of messages waits for a sign
that it is read (`net/connections/silence.py`)."""

_QUICK = 4
"""Round trips within which half of a window is used up where it is too small. Yamux's in Go."""


class ReceiveWindow:
    """Has reads of a stream answered for half of the window, which doubles if that is used up
    quickly; and now and then where it is full, or messages were read, for their sender to see it.
    Other muxers than Yamux are left alone."""

    def __init__(self, stream: INetStream) -> None:
        muxed = getattr(stream, "muxed_stream", None)
        self._muxed = muxed if isinstance(muxed, YamuxStream) else None
        self._read, self._granted_at = 0, -_INTERVAL
        if self._muxed is not None:
            self._read_to_end = self._muxed.read
            self._muxed.read = self._read_some  # type: ignore[method-assign]

    async def wait(self) -> None:
        """Return when something has come, or the stream has ended."""
        muxed = self._muxed
        if muxed is None or muxed.recv_closed or muxed.closed:
            return
        conn, id = muxed.conn, muxed.stream_id
        event = conn.stream_events.get(id)
        if event is not None and not conn.stream_buffers.get(id):
            await event.wait()
            if id in conn.stream_events:
                conn.stream_events[id] = trio.Event()

    async def answer(self) -> bool:
        """Grant what was read of messages. False where something was granted a moment ago: the
        sender may have sent them since."""
        if self._muxed is None:
            return True
        if trio.current_time() - self._granted_at < _INTERVAL:
            return False
        await self._grant(self._muxed, self._read)
        return True

    async def _read_some(self, n: int | None = -1) -> bytes:
        muxed = self._muxed
        assert muxed is not None
        if n is None or n < 0 or muxed.recv_closed or muxed.closed:
            return await self._read_to_end(n)
        if buffer := muxed.conn.stream_buffers.get(muxed.stream_id):
            data = bytes(buffer[:n])
            del buffer[:n]
        else:
            data = await muxed.conn.read_stream(muxed.stream_id, n)
        self._read += len(data)
        half, since = muxed.target_recv_window // 2, trio.current_time() - self._granted_at
        if self._read >= half:
            more = self._read
            if since < _QUICK * muxed.conn.rtt():
                more += min(muxed.target_recv_window, MAX_WINDOW_SIZE - muxed.target_recv_window)
            await self._grant(muxed, more)
        elif muxed.recv_window < half and since >= _INTERVAL:
            # py-libp2p's writers wait 5 s for room, and this reader is slow.
            await self._grant(muxed, self._read)
        return data

    async def _grant(self, muxed: YamuxStream, more: int) -> None:
        muxed.target_recv_window += more - self._read
        muxed.recv_window += more
        self._read, self._granted_at = 0, trio.current_time()
        await muxed.send_window_update(more)
