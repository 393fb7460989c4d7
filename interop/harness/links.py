"""Links between peers that pubsub can use."""

from __future__ import annotations

from interop.harness.peer import Peer


async def link(dialler: Peer, listener: Peer, topic: str) -> None:
    """Connect two peers and wait until each can send the other messages of the topic."""
    await dialler.dial(listener)
    await dialler.knows(listener, topic)
    await listener.knows(dialler, topic)


async def mesh_link(dialler: Peer, listener: Peer, topic: str) -> None:
    """`link`, and wait until each has the other in its mesh."""
    await link(dialler, listener, topic)
    await dialler.meshed(listener, topic)
    await listener.meshed(dialler, topic)
