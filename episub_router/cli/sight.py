"""What happens in a topic, in a line for each event."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable

from episub_router.net.events import TopicEvent, line_on


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
