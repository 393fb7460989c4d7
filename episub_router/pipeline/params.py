"""What answers depend on beside the events: each setting once, with unit, default and source."""

from dataclasses import dataclass

from episub_router.util.params import check_numbers, param

SECOND = 1_000_000_000
"""Nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerParams:
    """How answers are made. Raises ValueError for values that can't be."""

    window: float = param(10.0, unit="s", source="chosen: ten heartbeats of gossipsub")
    """Messages published within it are answered together; the overlay is measured at its end."""
    patience: float = param(10.0, unit="s", source="the simulator's `traffic.settle`")
    """Time that a message is given to reach everybody."""
    deadline: float = param(3.0, unit="s", source="the line in the evaluation of gossipsub v1.1")
    """Deliveries after this are late, and get a cause, as missing ones do."""
    silence: float = param(30.0, unit="s", source="three times the tracer's report interval")
    """A node whose trace ends this long before the run's counts as gone."""
    longest: float = param(2_592_000.0, unit="s", source="chosen: a month; a flipped bit is years")
    """Events further than this from the middle of their run don't say when it begins or ends."""
    looks: int = param(1_000, unit="looks", source="chosen: more than a chart shows")
    """Measurements of the overlay at most, where a run has more windows."""
    lateness: float = param(3630.0, unit="s", source="the tracer's max_age, and 30 s to get there")
    """How far a stream's watermark is behind the latest event."""
    path_sources: int = param(100, unit="nodes", source="the simulator's PATH_SOURCES")
    """Nodes from which shortest paths are measured, at most."""

    at_once: int = param(2, unit="tables", source="chosen: a third one waits for others mostly")
    """Tables that are made at the same time."""

    @property
    def slice(self) -> int:
        """ns: a silence shorter than that is none, as it makes nothing late."""
        return max(SECOND, int(self.deadline * SECOND) // 2)

    def __post_init__(self) -> None:
        check_numbers(self)
