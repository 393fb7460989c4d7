"""What happens in a topic, in a line for each event, and which neighbours come and go."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable

from libp2p.peer.id import ID

from episub_router.net.events import NeighborDown, TopicEvent, line_on
from episub_router.protocol.effects import DownReason
from episub_router.router import EpisubRouter


async def report_events(
    events: AsyncIterable[TopicEvent],
    say: Callable[[str], None],
    but: tuple[type[TopicEvent], ...] = (),
) -> None:
    """Hand a line on each of `events` to `say`, except those of a type in `but`; a line that is as
    the one before it is left out."""
    last = ""
    async for event in events:
        line = line_on(event)
        if line != last and not isinstance(event, but):
            say(line)
        last = line


async def report_neighbors(
    router: EpisubRouter,
    topic: str,
    joined: Callable[[ID, int], None],
    parted: Callable[[ID, int, DownReason | None], None],
) -> None:
    """Call `joined` and `parted` with each neighbour that comes or goes, of Episub's or of
    gossipsub's, with how many there are now, and why it went; of gossipsub's no reason is known."""
    events = router.events(topic)
    known: dict[ID, None] = {}
    while True:
        mesh = router.mesh.get(topic, set())
        why = {e.peer: e.reason for e in events.waiting() if isinstance(e, NeighborDown)}
        for peer in [peer for peer in known if peer not in mesh]:
            del known[peer]
            parted(peer, len(known), why.get(peer))
        for peer in [peer for peer in mesh if peer not in known]:
            known[peer] = None
            joined(peer, len(known))
        await router.mesh_changed()
