"""What a report depends on beside the answers: each setting once, with unit, default and source."""

from dataclasses import dataclass

from episub_router.util.params import check_numbers, param


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportParams:
    """How a report is made. Raises ValueError for values that can't be."""

    points: int = param(400, unit="points", source="chosen: as many as a phone has pixels")
    """Points of a curve; in longer ones messages are averaged and quantiles thinned out. Also the
    faults of a topic that are shown: those that affected the most nodes."""
    drawn: int = param(400, unit="peers", source="chosen: more can't be distinguished")
    """Peers of a drawing: those nearest to the publisher."""
    topics: int = param(6, unit="topics", source="chosen: as many as colours can be distinguished")
    """Topics of each run: those with the most messages, and the baseline's that they have."""
    worst: int = param(10, unit="peers", source="chosen: as many as are looked at one by one")
    """Peers that are listed as those that fared worst."""
    enough: int = param(10, unit="messages", source="chosen: of fewer, one is a tenth")
    """Messages that a peer should have got to be among them."""
    reasons: int = param(20, unit="rows", source="chosen")
    """Rows of the table of losses: the most frequent reasons."""

    def __post_init__(self) -> None:
        check_numbers(self)
