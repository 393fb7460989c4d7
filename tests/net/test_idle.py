"""Closing connections that nobody needs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import trio
from libp2p.peer.id import ID
from trio.testing import MockClock

from episub_router import RouterParams
from episub_router.net.connections.idle import IdleConnections
from episub_router.net.counters import Reason
from tests.net.fakes import Lab

KEY = b"\x00\x24\x08\x01\x12\x20" + bytes(32)


async def test_a_connection_that_could_not_be_closed_in_time_is_closed_later(
    autojump_clock: MockClock,
) -> None:
    """While many join, closing takes its time; such connections stayed for good."""
    lab = Lab()
    peer = lab.peers[KEY]
    lab.connect(peer)
    took = iter([60.0, 0.2])
    closed: list[float] = []

    async def disconnect(_: ID) -> None:
        await trio.sleep(next(took))
        closed.append(trio.current_time())
        lab.pubsub.connections.clear()

    network = SimpleNamespace(
        is_protected=lambda _: False,
        get_connections=lambda peer: lab.pubsub.connections.get(peer, []),
    )
    host: Any = SimpleNamespace(get_network=lambda: network, disconnect=disconnect)
    idle = IdleConnections(host, lab.peers, lab.counters)
    lab.peers.note_dialled(peer)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(idle.run)
        await trio.sleep(RouterParams().idle_timeout + 10)
        assert lab.peers.is_connected(peer.id)
        await trio.sleep(RouterParams().idle_timeout + 10)
        nursery.cancel_scope.cancel()
    assert len(closed) == 1
    assert lab.counters[Reason.CONNECTIONS_CLOSED] == 1
