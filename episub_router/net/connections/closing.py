"""Connections that are closed within a time."""

from __future__ import annotations

from contextlib import suppress

import trio
from libp2p.abc import INetConn

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
