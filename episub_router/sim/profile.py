"""Where the time of a run goes, by kind of event."""

from __future__ import annotations

from collections import Counter, defaultdict
from time import perf_counter
from typing import Any

from episub_router.sim.network.queue import Action, EventLoop

_NAMES = {
    "_woken": "timers",
    "_dialled": "dials",
    "_dial_failed": "dials",
    "_closed": "connections closed",
    "_closed_here": "connections closed",
    "_cut_noticed": "connections closed",
    "_measured": "round trips",
    "_take_snapshot": "snapshots",
    "_publish": "publishing",
}
"""What actions are shown as; others go by their own names."""


class Profile:
    """The number of events of each kind, and the seconds that they took."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.seconds: defaultdict[str, float] = defaultdict(float)

    def rows(self) -> list[tuple[str, int, float]]:
        """(kind, events, seconds), what took the longest first."""
        kinds = sorted(self.events, key=lambda kind: -self.seconds[kind])
        return [(kind, self.events[kind], self.seconds[kind]) for kind in kinds]


class ProfiledLoop(EventLoop):
    """An event loop that takes the time of each action. What happens in it is the same."""

    def __init__(self, profile: Profile) -> None:
        super().__init__()
        self._profile = profile

    def at(self, time: float, action: Action, argument: Any) -> None:
        """Queue `action(argument)` for `time`."""
        super().at(time, self._perform, (action, argument))

    def _perform(self, queued: tuple[Action, Any]) -> None:
        action, argument = queued
        started = perf_counter()
        action(argument)
        took = perf_counter() - started
        kind = _kind_of(action, argument)
        self._profile.events[kind] += 1
        self._profile.seconds[kind] += took


def _kind_of(action: Any, argument: Any) -> str:
    name: str = action.__name__
    if name == "receive":
        # Episub's parcels are `Received`, those of others (sender, kind, body).
        episub = hasattr(argument, "message")
        return str(type(argument.message).__name__ if episub else argument[1]).upper()
    return _NAMES.get(name, name.lstrip("_").replace("_", " "))
