"""The channel's Lamport clock (S02)."""

from __future__ import annotations

from episub_router.protocol.types import Time
from episub_router.sds.protocol.message import MAX_LAMPORT


class ClockAheadError(RuntimeError):
    """Our clock is so far ahead of our time of day that others would refuse our messages.

    It is so after the time of day was wrong, and was set back: until it has caught up to
    `max_clock_lead`, nothing can be sent.
    """


class LamportClock:
    """Milliseconds of Unix time, never behind what was sent or adopted.

    `max_lead` (ms) bounds how far a clock may be ahead of our time of day. A message beyond it is
    refused until our time has come closer: if it were delivered and its clock not adopted, our
    next message would come before it in the total order and after it in the causal one.
    """

    def __init__(self, wall_offset: float, now: Time, max_lead: int) -> None:
        self.wall_offset = wall_offset
        """Unix time minus `now`, in seconds."""
        self.value = 0
        self._max_lead = max_lead
        self._ticked = (now, self.wall(now))
        """When our time of day was last used, and what it was."""
        self._adopted = False
        """Whether the clock goes back to another's message, and not to our time of day."""

    def wall(self, now: Time) -> int:
        """The time of day, in milliseconds of Unix time."""
        return int((now + self.wall_offset) * 1000)

    def tick(self, now: Time) -> int:
        """The clock of the next message of our own: max(time of day, clock + 1).

        A time of day that has leapt ahead by half of `max_lead` while we ran may be wrong: ours
        goes on as it was, and follows the clocks of others that say the same.
        """
        wall, (since, before) = self.wall(now), self._ticked
        expected = before + int((now - since) * 1000)
        if wall > expected + self._max_lead // 2:
            wall = expected
        self._ticked = (now, wall)
        if wall > self.value:
            self._adopted = False
        self.value = min(MAX_LAMPORT, max(wall, self.value + 1))
        return self.value

    def ahead(self, lamport: int, wall: int) -> bool:
        """Whether a clock is further ahead of our time of day than is taken for itself.

        One that follows a message that was taken is taken too.
        """
        return lamport > wall + self._max_lead

    def refused(self, wall: int) -> bool:
        """Whether others would refuse our next message: our time of day was ahead, and set back."""
        return not self._adopted and self.ahead(self.value + 1, wall)

    def merge(self, received: int) -> bool:
        """Adopt a delivered message's clock. False where ours is not behind it."""
        if received <= self.value:
            return False
        self.value = received
        self._adopted = True
        return True
