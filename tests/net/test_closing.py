"""Connections that end: within a time, whole, and with their slot given back."""

from __future__ import annotations

import logging
from socket import SHUT_WR
from typing import Any

import pytest
import trio
from libp2p.io.exceptions import IOException
from libp2p.network.connection.swarm_connection import SwarmConn
from libp2p.protocol_muxer.exceptions import MultiselectCommunicatorError
from libp2p.stream_muxer.exceptions import MuxedStreamError
from libp2p.stream_muxer.yamux.yamux import YamuxStream

from episub_router import EpisubRouter, ResilientPubsub
from episub_router.net.connections.closing import close_within
from episub_router.net.connections.kernel import socket_below
from episub_router.net.connections.ping import measure_rtt
from tests.hosts import Node, connect, eventually, running_nodes

pytestmark = pytest.mark.hosts


def connections(node: Node, other: Node) -> list[SwarmConn]:
    found = node.host.get_network().get_connections(other.id)
    return [connection for connection in found if isinstance(connection, SwarmConn)]


async def test_a_connection_whose_other_end_takes_nothing_is_closed() -> None:
    """A close that is cancelled leaves it with the swarm: it counts, and isn't dialled again."""
    async with running_nodes(2, router=EpisubRouter, pubsub_class=ResilientPubsub) as (a, b):
        await connect(a, b)
        (connection,) = connections(a, b)
        muxed: Any = connection.muxed_conn
        socket = socket_below(muxed)
        assert socket is not None

        async def blocks(data: bytes) -> None:
            await eventually(lambda: socket.fileno() == -1)
            raise IOException("closed")

        muxed.secured_conn.write = blocks
        await close_within(connection, 0.1)
        await eventually(lambda: not connections(a, b))


async def test_a_ping_that_is_cancelled_leaves_the_connection_whole() -> None:
    """Noise counts a message before it is sent: one that is then left out ends all others."""
    async with running_nodes(2, router=EpisubRouter, pubsub_class=ResilientPubsub) as (a, b):
        await connect(a, b)
        for steps in range(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(measure_rtt, a.host, b.id)
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
            assert await measure_rtt(a.host, b.id) > 0
        assert len(connections(a, b)) == 1


async def test_a_ping_to_a_peer_that_goes_logs_no_error(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`IHost.new_stream` does: three lines of py-libp2p's on stderr at many a shutdown."""
    monkeypatch.setattr(logging.getLogger("libp2p"), "propagate", True)
    async with running_nodes(2, router=EpisubRouter, pubsub_class=ResilientPubsub) as (a, b):
        await connect(a, b)
        (connection,) = connections(a, b)
        socket = socket_below(connection.muxed_conn)
        assert socket is not None
        socket.shutdown(SHUT_WR)
        with pytest.raises((MultiselectCommunicatorError, MuxedStreamError)):
            await measure_rtt(a.host, b.id)
        await eventually(lambda: not connections(a, b))
        with pytest.raises(ConnectionError, match="is not connected"):
            await measure_rtt(a.host, b.id)
    assert not [r for r in caplog.records if r.levelno >= logging.WARNING]


async def test_a_connection_that_ended_leaves_room_for_another() -> None:
    """py-libp2p gives back what an inbound connection took of its limit when the host stops."""
    async with running_nodes(2, router=EpisubRouter, pubsub_class=ResilientPubsub) as (a, b):
        network: Any = b.host.get_network()
        patched = hasattr(network, "inbound_slots")
        slots = network.inbound_slots if patched else network._inbound_limiter
        slots.total_tokens = 1
        for _ in range(3):
            await connect(a, b)
            assert len(connections(b, a)) == 1
            await a.host.disconnect(b.id)
            await eventually(lambda: slots.available_tokens == 1)


async def test_reads_of_no_stream_are_answered_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """py-libp2p reads protocols' names byte by byte, and answers each byte with a frame."""
    granted = []

    async def note(stream: YamuxStream, increment: int, skip_lock: bool = False) -> None:
        granted.append(increment)

    async with running_nodes(2, router=EpisubRouter, pubsub_class=ResilientPubsub) as (a, b):
        await connect(a, b)
        monkeypatch.setattr(YamuxStream, "send_window_update", note)
        assert await measure_rtt(a.host, b.id) > 0
    assert granted == []
