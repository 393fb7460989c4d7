"""Which LEAVEs to believe (E14)."""

from __future__ import annotations

import time
from collections import OrderedDict

from episub_router.net.inbound.leave_proof import leave_seq, verify_leave
from episub_router.protocol.messages import Disconnect, Leave

MAX_AGE = 300.0
"""Seconds; ours: how far the clocks of a leaving node and ours may differ."""

MAX_REMEMBERED = 4096
"""LEAVEs; ours: bound of the table that stops repetition."""


class LeaveGate:
    """Lets a LEAVE pass once, if its source signed it at most `MAX_AGE` ago.

    Without a signature anybody could expel others, and without an age do so with a LEAVE from
    before they came back. A peer that leaves over its own connection needs no proof.
    """

    def __init__(self) -> None:
        self._newest: OrderedDict[tuple[str, bytes], int] = OrderedDict()

    def admit(self, sender: bytes, topic: str, leave: Leave) -> Leave | Disconnect | None:
        """What to hand to the core: the LEAVE, or at least the sender's own goodbye, or nothing."""
        source = leave.source
        seq = leave_seq(leave.proof)
        if (
            isinstance(source, bytes)
            and seq is not None
            and seq > self._newest.get((topic, source), 0)
            and abs(time.time_ns() - seq) <= MAX_AGE * 1e9
            and verify_leave(source, topic, leave.proof)
        ):
            self._newest[topic, source] = seq
            self._newest.move_to_end((topic, source))
            if len(self._newest) > MAX_REMEMBERED:
                self._newest.popitem(last=False)
            return leave
        return Disconnect(alive=False) if source == sender else None
