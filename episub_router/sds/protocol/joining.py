"""Joining late: finding the place in the group's log at which ours begins.

A newcomer that wants the last messages only asks three peers for the places of their newest ones,
and takes the middle one of what they say: so one that lies decides nothing. What has no clock above
the place counts as met and is never taken.
"""

from __future__ import annotations

from collections.abc import Sequence

from episub_router.protocol.types import Time
from episub_router.sds.protocol.clock import LamportClock
from episub_router.sds.protocol.effects import Effect, JoinedAt, PeerRef
from episub_router.sds.protocol.entry import Key
from episub_router.sds.protocol.log import Log

JOIN_PEERS = 3
"""Peers that are asked, so that a stale one, or one that lies, can't mislead (chosen)."""


class Joining:
    """`last`: how many messages a newcomer wants of what there is; None is all. `signers`: it wants
    the newest snapshot that so many members have signed.

    `since` is None until the place is found, and 0 where all is wanted.
    """

    def __init__(
        self, last: int | None, signers: int | None, log: Log, clock: LamportClock
    ) -> None:
        self.last = last
        self.signers = signers
        self.since = 0 if last is None and signers is None else None
        self.refused = 0
        """Peers that had no snapshot."""
        self.said: dict[PeerRef, int] = {}
        """What peers said: the clock after which their last messages begin."""
        self._log = log
        self._clock = clock

    @property
    def pending(self) -> bool:
        """Whether the place isn't known yet."""
        return self.since is None

    def hear(self, peer: PeerRef, newest: Sequence[Key], now: Time) -> None:
        """The places of a peer's newest messages, newest first.

        A clock too far ahead would keep out everybody.
        """
        last = self.last or 0
        if not newest:
            return
        if last == 0:
            since = newest[0][0]
        else:
            since = max(0, newest[last - 1][0] - 1) if len(newest) >= last else 0
        if not self._clock.ahead(since, self._clock.wall(now)):
            self.said[peer] = since

    def decide(self, now: Time) -> list[Effect]:
        """Begin at the middle one of the places."""
        said = sorted(self.said.values())
        return self.begin(said[(len(said) - 1) // 2], now)

    def begin(self, since: int, now: Time) -> list[Effect]:
        """The place is found. What we sent ourselves meanwhile is ours all the same.

        One in our future would keep out what honest members say until then.
        """
        since = min(since, self._clock.wall(now))
        if len(self._log):
            since = min(since, max(0, self._log.place(0)[0] - 1))
        self.restore(since)
        return [JoinedAt(since)]

    def restore(self, since: int) -> None:
        """The place as it was found before a restart."""
        self.since = since
        self._log.begin(since)
