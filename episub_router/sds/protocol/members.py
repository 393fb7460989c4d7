"""The other members of the channel, as far as they have sent anything or can be asked."""

from __future__ import annotations

from episub_router.protocol.types import Time
from episub_router.sds.protocol.message import SenderId
from episub_router.sds.protocol.params import SdsParams


class Members:
    """Senders of messages received within `member_ttl`, at most `members_limit`."""

    def __init__(self, params: SdsParams) -> None:
        self._params = params
        self._heard: dict[SenderId, Time] = {}
        self.peers = 0
        """Those that can be asked, of which not all need to have sent anything."""

    def note(self, sender: SenderId, now: Time) -> None:
        self._heard.pop(sender, None)
        self._heard[sender] = now
        if len(self._heard) > self._params.members_limit:
            del self._heard[next(iter(self._heard))]

    def count(self, now: Time) -> int:
        """The group's size with ourselves."""
        while self._heard:
            oldest = next(iter(self._heard))
            if now - self._heard[oldest] <= self._params.member_ttl:
                break
            del self._heard[oldest]
        return max(len(self._heard), self.peers) + 1
