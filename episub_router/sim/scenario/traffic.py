"""Settings of a scenario's messages: which nodes publish, and when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Literal

from episub_router.sim.strict import ScenarioError, setting

PREFACE_LEAD = 10.0
"""Seconds before `start` at which the preface begins: time for its tree to come to rest."""
PREFACE_INTERVAL = 0.5
"""Seconds between two messages of the preface."""
PREFACE_TURN = -1
"""The turn of the preface's source, which has none among the others."""
_PAUSE = (0.6, 1.4)
"""Between two messages of a chatting node: from 0.6 to 1.4 intervals."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrafficConfig:
    """Which nodes publish what, and when.

    Fixed nodes are drawn from the seed; in a network of fewer nodes, nodes take several turns.
    Raises ScenarioError where settings don't go together.
    """

    source: Literal["one", "few", "new", "chat", "random", "all", "outside"] = "one"
    """"one": the first node; "few": `sources` fixed nodes in turn; "new": `sources` fixed nodes,
    `at_once` of them in turn until each has published `each` messages, then the next ones;
    "chat": `sources` fixed nodes, each of which begins at a random time within `over` seconds and
    pauses for about `interval` after each message; "random": a random live node each time; "all":
    every live node in turn; "outside": a publisher outside of the network sends each message to
    `fanout` random nodes (the published simulator's driver)."""
    sources: int = setting(5, least=1)
    at_once: int = setting(5, least=1)
    """With "new": sources that publish at the same time."""
    each: int = setting(10, least=1)
    """With "new": messages of each source."""
    over: float = setting(45.0, least=0)
    """With "chat": seconds within which all nodes begin."""
    pool: int = setting(0, least=0)
    """With "random": draw from this many fixed nodes instead of from all; 0 is all."""
    fanout: int = setting(5, least=1)
    preface: int = setting(0, least=0, most=20)
    """Messages of one more fixed node, from 10 s before `start` on, one every 0.5 s. They aren't
    counted in `messages`."""
    messages: int = setting(10, least=1, most=1_000_000)
    start: float = setting(5.0, least=0)
    interval: float = setting(1.0, above=0)
    """Seconds between two messages, or between the first messages of two bursts."""
    burst: int = setting(1, least=1)
    """Messages that are published together, `gap` seconds apart."""
    gap: float = setting(0.01, least=0)
    size: int = setting(1024, least=0)
    """Payload bytes."""
    authors: bool = True
    """Whether messages name their authors, as signed ones do."""
    large_every: int = setting(0, least=0)
    """One in this many messages, the first, has `large_size` payload bytes; 0 is none."""
    large_size: int = setting(1_000_000, least=0)
    settle: float = setting(10.0, above=0)
    """Seconds after the last message until the run ends, and that each message is given."""

    def __post_init__(self) -> None:
        if self.preface and self.source not in ("one", "few", "new", "chat"):
            raise ScenarioError(f"traffic.preface needs fixed sources, not {self.source!r}")
        if self.preface and self.start < PREFACE_LEAD:
            raise ScenarioError(
                f"traffic.start = {self.start}; must be at least {PREFACE_LEAD} with a preface"
            )
        if self.burst > 1 and self.source == "chat":
            raise ScenarioError("traffic.burst: a chat has no bursts")
        if (self.burst - 1) * self.gap > self.interval:
            raise ScenarioError(
                f"traffic.interval = {self.interval}; a burst lasts {(self.burst - 1) * self.gap}"
            )

    @property
    def fixed(self) -> int:
        """How many nodes are drawn as sources before the run, the preface's included."""
        drawn = {"one": 1, "few": self.sources, "new": self.sources, "chat": self.sources}
        drawn["random"] = self.pool
        return drawn.get(self.source, 0) + (self.preface > 0)

    @property
    def last(self) -> float:
        """The time of the last message; the latest that there can be, in a chat."""
        if self.source == "chat":
            pauses = (self.messages - 1) // self.sources
            return self.start + self.over + pauses * _PAUSE[1] * self.interval
        return self._time(self.messages - 1)

    def size_of(self, index: int) -> int:
        """Payload bytes of the `index`-th message, the preface's counted too."""
        place = index - self.preface
        is_large = self.large_every and place >= 0 and place % self.large_every == 0
        return self.large_size if is_large else self.size

    def schedule(self, rng: Random) -> Iterator[tuple[float, int]]:
        """When each message is published, and the turn of its source, in order of time.

        Turns count the sources from 0 on, or the messages where none are fixed; that of the
        preface's source is `PREFACE_TURN`.
        """
        for index in range(self.preface):
            yield self.start - PREFACE_LEAD + index * PREFACE_INTERVAL, PREFACE_TURN
        if self.source == "chat":
            yield from sorted(self._chat(rng))
            return
        for index in range(self.messages):
            yield self._time(index), self._turn(index)

    def _time(self, index: int) -> float:
        bursts, behind = divmod(index, self.burst)
        # From the start anew, so that no rounding adds up.
        return self.start + (bursts * self.interval + behind * self.gap)

    def _turn(self, index: int) -> int:
        if self.source != "new":
            return index
        return index // (self.at_once * self.each) * self.at_once + index % self.at_once

    def _chat(self, rng: Random) -> Iterator[tuple[float, int]]:
        for turn in range(min(self.sources, self.messages)):
            time = self.start + rng.uniform(0.0, self.over)
            for _ in range(turn, self.messages, self.sources):
                yield time, turn
                time += rng.uniform(*_PAUSE) * self.interval
