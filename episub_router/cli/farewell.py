"""Leaving without losing what was published last."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import trio
from libp2p.abc import IHost
from libp2p.peer.id import ID

from episub_router import EpisubRouter
from episub_router.net.ping import measure_rtt

FAREWELL = 2.0
"""Seconds that leaving may take."""


async def frames_arrive(host: IHost, router: EpisubRouter, neighbors: Iterable[ID]) -> None:
    """Wait until `neighbors` have everything that was sent; at most FAREWELL seconds."""
    with trio.move_on_after(FAREWELL):
        await router.wait_for_room(0)
        for peer in neighbors:
            # An echo means that what was written before has arrived, too.
            with suppress(Exception):
                await measure_rtt(host, peer)
