"""What happens in a topic, in a line for each event."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable

from episub_router.net.events import (
    Alone,
    Banned,
    BootstrapFailed,
    Joined,
    MessageLost,
    NeighborDown,
    NeighborUp,
    TopicEvent,
)


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


def line_on(event: TopicEvent) -> str:
    """What happened, for people."""
    match event:
        case NeighborUp(peer=peer, neighbors=count):
            return f"neighbour {str(peer)[-8:]} came; there are {count}"
        case NeighborDown(peer=peer, neighbors=count):
            return f"neighbour {str(peer)[-8:]} went; there are {count}"
        case Joined():
            return "joined: what is published now reaches others"
        case Alone():
            return "alone: what is published now reaches nobody, until there is a neighbour"
        case MessageLost():
            return "a message was announced, and none of the announcers delivered it"
        case Banned(peer=peer, seconds=seconds):
            return f"neighbour {str(peer)[-8:]} is banned for {seconds:g} s"
        case BootstrapFailed(address=address, reason=reason):
            return f"can't reach {address}: {reason}"
        case _:
            return f"{event.count} events went by unseen"
