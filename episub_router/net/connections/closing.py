"""Connections that are closed within a time, and messages over them that are written whole."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

import trio
from libp2p.abc import IMuxedConn, INetConn

from episub_router.net.connections.kernel import socket_below


async def close_within(connection: INetConn, seconds: float) -> None:
    """Close `connection`, and its socket if that takes longer: py-libp2p keeps a connection for
    ever whose closing was cancelled."""
    found = socket_below(connection.muxed_conn)

    async def cut() -> None:
        await trio.sleep(seconds)
        if found is not None:
            found.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(cut)
        with suppress(Exception):  # It may go down by itself meanwhile, which is what is wanted.
            await connection.close()
        nursery.cancel_scope.cancel()


def write_whole(connection: IMuxedConn) -> None:
    """Have a write that has begun go on when its task is cancelled: after part of a Noise message,
    or one that was counted and not sent, the other end can't decrypt anything. Only where the
    kernel ends a connection that takes nothing (`notice_silence`)."""
    secured: Any = getattr(connection, "secured_conn", None)
    if secured is None or not hasattr(socket, "TCP_USER_TIMEOUT"):
        return
    write = secured.write

    async def whole(data: bytes) -> None:
        with trio.CancelScope(shield=True):
            await write(data)

    secured.write = whole
