"""Yamux's window of an inbound stream, granted anew now and then.

libp2p 0.8.1 answers each read with a window update: a frame, a Noise message and a system call at
each end, a fifth of what a small message costs.
"""

from __future__ import annotations

from typing import Any

import trio
from libp2p.abc import INetStream
from libp2p.stream_muxer.yamux.yamux import MAX_WINDOW_SIZE, YamuxStream

_INTERVAL = 1.0
"""Seconds from one update to the next; chosen: what comes more rarely is answered each time, so
that a sender sees that it is read."""

_QUICK = 4
"""Round trips within which half of a window is used up where it is too small. Yamux's in Go."""


def grant_rarely(stream: INetStream) -> None:
    """Have reads of `stream` answered with one update in `_INTERVAL`, or for half of the window;
    one that is used up quickly doubles."""
    muxed: Any = getattr(stream, "muxed_stream", None)
    is_yamux = isinstance(muxed, YamuxStream)
    if not is_yamux:
        return
    read, granted_at = 0, -_INTERVAL

    async def read_some(n: int | None = -1) -> bytes:
        nonlocal read, granted_at
        data: bytes = await muxed.conn.read_stream(muxed.stream_id, n)
        read += len(data)
        now = trio.current_time()
        is_half = read >= muxed.target_recv_window // 2
        if is_half or now - granted_at >= _INTERVAL:
            more = read
            if is_half and now - granted_at < _QUICK * muxed.conn.rtt():
                more += min(muxed.target_recv_window, MAX_WINDOW_SIZE - muxed.target_recv_window)
            muxed.target_recv_window += more - read
            muxed.recv_window += more
            read, granted_at = 0, now
            await muxed.send_window_update(more)
        return data

    muxed.read = read_some
