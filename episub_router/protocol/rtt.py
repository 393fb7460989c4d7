"""A smoothed round-trip time (E18: "a smoothed running average")."""

from __future__ import annotations

_MEAN_GAIN = 1 / 8
_SPREAD_GAIN = 1 / 4

_LEAST_GROWTH = 1 / 16
"""Share per sample. Chosen: a way that has become twice as long counts as such after 12 samples."""


class Rtt:
    """Mean and spread in seconds, smoothed as TCP does it (RFC 6298, section 2)."""

    __slots__ = ("least", "mean", "spread")

    def __init__(self, sample: float) -> None:
        self.least = sample
        """The shortest, as queues on the way only ever add to it, of late: it grows until a sample
        is shorter."""
        self.mean = sample
        self.spread = sample / 2

    def update(self, sample: float) -> None:
        """A round trip took `sample` seconds."""
        self.least = min(sample, self.least * (1 + _LEAST_GROWTH))
        self.spread += _SPREAD_GAIN * (abs(sample - self.mean) - self.spread)
        self.mean += _MEAN_GAIN * (sample - self.mean)


def updated(rtt: Rtt | None, sample: float) -> Rtt:
    """`rtt` itself with `sample` in it, or a new one where there was none."""
    if rtt is None:
        return Rtt(sample)
    rtt.update(sample)
    return rtt
