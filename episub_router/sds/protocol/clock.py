"""The channel's Lamport clock (S02)."""

from __future__ import annotations

from episub_router.sds.protocol.message import MAX_LAMPORT


class LamportClock:
    """Milliseconds of Unix time, never behind what was sent or adopted.

    `max_lead` (ms) bounds what is adopted: a received clock further ahead of ours than that
    would make everybody's clock useless, so its message is taken and its clock is not.
    """

    def __init__(self, value: int, max_lead: int) -> None:
        self.value = value
        self._max_lead = max_lead

    def tick(self, wall: int) -> int:
        """The clock of the next message of our own: max(wall, clock + 1)."""
        self.value = min(MAX_LAMPORT, max(wall, self.value + 1))
        return self.value

    def merge(self, received: int, wall: int) -> bool:
        """Adopt a delivered message's clock. False where it's too far ahead to be adopted."""
        if received > max(wall, self.value) + self._max_lead:
            return False
        self.value = max(self.value, received)
        return True


def unwrap_int32(value: int, near: int) -> int:
    """The clock that a seed message means: its low 32 bits, taken nearest to `near`.

    The seed's schema keeps an int32 of a clock that starts at epoch time. Serial-number
    arithmetic (RFC 1982) tells clocks within ±24 days of each other apart.
    """
    low = value & 0xFFFFFFFF
    ahead = (low - near) & 0xFFFFFFFF
    return max(0, near + (ahead if ahead < 2**31 else ahead - 2**32))
