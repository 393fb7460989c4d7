"""Which LEAVEs to believe (E14)."""

from __future__ import annotations

import time
from collections import OrderedDict

from episub_router.net.leave_proof import leave_seq, verify_leave
from episub_router.net.params import RouterParams
from episub_router.protocol.messages import Disconnect, Leave


class LeaveGate:
    """Lets a LEAVE pass once, if its source signed it, and not long ago.

    Without the last two, anybody could expel others, or do so with a LEAVE from before they
    came back. What says goodbye for itself over its own connection needs no proof.
    """

    def __init__(self, params: RouterParams) -> None:
        self._params = params
        self._newest: OrderedDict[tuple[str, bytes], int] = OrderedDict()

    def admit(self, sender: bytes, topic: str, leave: Leave) -> Leave | Disconnect | None:
        """What to hand to the core: the LEAVE, or at least the sender's own goodbye, or nothing."""
        source = leave.source
        seq = leave_seq(leave.proof)
        if (
            isinstance(source, bytes)
            and seq is not None
            and seq > self._newest.get((topic, source), 0)
            and abs(time.time_ns() - seq) <= self._params.leave_max_age * 1e9
            and verify_leave(source, topic, leave.proof)
        ):
            self._newest[topic, source] = seq
            self._newest.move_to_end((topic, source))
            if len(self._newest) > self._params.leave_memory:
                self._newest.popitem(last=False)
            return leave
        return Disconnect(alive=False) if source == sender else None
