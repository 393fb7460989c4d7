"""What the checker finds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """A promise that wasn't kept."""

    promise: str
    """Its name in docs/testbed.md."""
    time: float
    """Seconds since the begin of the run."""
    text: str
    """For people, with hosts and messages."""

    def __str__(self) -> str:
        return f"{self.promise} at {self.time:.1f} s: {self.text}"
