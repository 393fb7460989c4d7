"""Links between peers that pubsub can use."""

from __future__ import annotations

from collections.abc import Sequence

import trio

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


async def one_mesh(peers: Sequence[Peer], topic: str) -> None:
    """Wait until the meshes of the peers hang together."""
    async with trio.open_nursery() as nursery:

        async def watch(peer: Peer) -> None:
            await peer.until(lambda: _hang_together(peers, topic), f"one mesh of {topic}")
            nursery.cancel_scope.cancel()

        for peer in peers:
            nursery.start_soon(watch, peer)


def _hang_together(peers: Sequence[Peer], topic: str) -> bool:
    meshes = {peer.id: peer.mesh(topic) for peer in peers}
    reached = {peers[0].id: None}
    queue = [peers[0].id]
    for peer in queue:
        for other in meshes[peer]:
            if other not in reached and peer in meshes.get(other, ()):
                reached[other] = None
                queue.append(other)
    return len(reached) == len(peers)
