"""Which LEAVEs the core gets to see (E14)."""

from __future__ import annotations

import time

from episub_router.protocol.messages import Disconnect, Leave
from episub_router.util.bounded import put_last
from episub_router.wire.leave_proof import leave_seq, verify_leave

MAX_LEAVE_AGE = 300.0
"""Seconds; chosen: how far the clocks of a leaving node and ours may differ."""

MAX_LEAVES = 4096
"""LEAVEs that are remembered, so that none is acted on twice; chosen."""


class LeaveGate:
    """Lets a LEAVE pass once, if its source signed it at most `MAX_LEAVE_AGE` ago (E14).

    Without a signature anybody could expel others, and without an age do so with a LEAVE from
    before they came back. A peer that leaves over its own connection needs no proof.
    """

    def __init__(self) -> None:
        self._newest: dict[tuple[str, bytes], int] = {}

    def admit(self, sender: bytes, topic: str, leave: Leave) -> Leave | Disconnect | None:
        """What to hand to the core: the LEAVE, or at least the sender's own goodbye, or nothing."""
        source = leave.source
        seq = leave_seq(leave.proof)
        if (
            isinstance(source, bytes)
            and seq is not None
            and seq > self._newest.get((topic, source), 0)
            and abs(time.time_ns() - seq) <= MAX_LEAVE_AGE * 1e9
            and verify_leave(source, topic, leave.proof)
        ):
            put_last(self._newest, (topic, source), seq, MAX_LEAVES)
            return leave
        return Disconnect(alive=False) if source == sender else None
