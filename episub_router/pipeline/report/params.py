"""What a report depends on beside the answers: each setting once, with unit, default and source."""

from __future__ import annotations

from dataclasses import dataclass

from episub_router.util.params import check_numbers, param


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportParams:
    """How a report is made. Raises ValueError for values that can't be."""

    points: int = param(400, unit="points", source="ours: as many as a phone has pixels")
    """In a curve at most: of longer ones, messages are averaged and quantiles thinned out. Also of
    the faults of a topic, those that took the most nodes."""
    drawn: int = param(400, unit="peers", source="ours: more can't be distinguished")
    """In a drawing at most: those nearest to the publisher."""
    topics: int = param(6, unit="topics", source="ours: as many as colours can be distinguished")
    """Of each run at most: those with the most messages; of the baseline also what they are held
    against."""
    worst: int = param(10, unit="peers", source="ours: as many as are looked at one by one")
    """That fared worst, by name."""
    enough: int = param(10, unit="messages", source="chosen: of fewer, one is a tenth")
    """That a peer was to get, to be among them."""
    reasons: int = param(20, unit="rows", source="ours")
    """In the table of losses at most: the most frequent."""

    def __post_init__(self) -> None:
        check_numbers(self)
