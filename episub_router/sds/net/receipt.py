"""A sent message: the members that have it, as far as is known (S10)."""

from __future__ import annotations

from episub_router.sds.net.driver import ChannelDriver
from episub_router.sds.protocol.message import MessageId, SenderId
from episub_router.sds.protocol.outgoing import AckStatus, Outgoing, Own


class NotAcknowledgedError(Exception):
    """Nobody will be waited for any more; the message says why. It stays in the log, and may
    still be fetched from there."""


class Receipt:
    """A message of ours, as long as the channel is open."""

    def __init__(self, driver: ChannelDriver, own: Own) -> None:
        self._driver = driver
        self._last = own

    @property
    def id(self) -> MessageId:
        return self._last.message_id

    @property
    def status(self) -> AckStatus:
        return self._own.status

    @property
    def published(self) -> bool:
        """Whether it was handed to the network, or is resent no more (since a restart)."""
        return self._own.published or not self._own.raw

    @property
    def acked_by(self) -> tuple[SenderId, ...]:
        """The members that have it for certain, in the order in which that became known."""
        return self._outgoing.holders(self._own)

    async def sent(self) -> None:
        """Wait until it was handed to the network.

        Raises trio.ClosedResourceError when the channel is closed meanwhile.
        """
        while not self.published:
            await self._driver.change()

    async def acknowledged(self, by: int = 1) -> None:
        """Wait until `by` other participants have it; bound the wait with a cancel scope.

        Raises NotAcknowledgedError when it isn't resent any more, or isn't tracked any more, and
        trio.ClosedResourceError when the channel is closed meanwhile.
        """
        while len(self.acked_by) < by:
            if self.status is AckStatus.EXPIRED:
                raise NotAcknowledgedError(f"{self.id} was resent as often as it may be")
            if self._outgoing.get(self.id) is None:
                raise NotAcknowledgedError(f"{self.id} is tracked no more")
            await self._driver.change()

    @property
    def _own(self) -> Own:
        self._last = self._outgoing.get(self.id) or self._last
        return self._last

    @property
    def _outgoing(self) -> Outgoing:
        return self._driver.participant.outgoing
