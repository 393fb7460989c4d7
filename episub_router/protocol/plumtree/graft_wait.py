"""How long an announced message may stay away before it is asked for, and before the next
announcer is (E34).

The waits for announcements are learned from what waiting would have brought. A standby announces at
once, so its wait follows how much later the parent's copies come; other announcements come late
anyway. The time that a neighbour has to answer a GRAFT is learned from the answers.
"""

from __future__ import annotations

from episub_router.protocol.plumtree.missing_messages import LOST_AFTER, MissingMessage
from episub_router.protocol.rtt import Rtt, updated
from episub_router.protocol.types import NEVER, PeerId, Time

# All measured with 1,000 nodes, five sources, crashes of 10 % and losses of 5 %.
_FIRST_WAIT = 0.02
_LEAST_WAIT = 0.01
_MOST_WAIT = 1.0
_SHRINK = 0.8
"""Of the wait, after a message that would not have arrived by itself."""
_GROW = 1.25
"""In multiples of the time after which a message did arrive by itself."""

_FIRST_LAG = 0.02
_MOST_LAG = 0.5
_LAG_GAIN = 0.25
"""As the spread of a round-trip time (RFC 6298)."""
_LAG_DECAY = 0.95
_LAG_FACTOR = 1.2
_LAG_MARGIN = 0.005

_ANSWER_TIME = 0.05
"""Seconds that a neighbour may take to answer a GRAFT beside two round trips, until answers are
known to take longer. Measured: with one, and the nearest announcer first, p99 is up to 10 % less
where 5 % of frames are lost, and up to twice as long under censors."""
_MOST_ANSWER_TIME = 5.0
"""Ours: more than a burst needs whose publisher is paced; members that answer late on purpose keep
others waiting for no longer."""
_ANSWER_SPREADS = 4
"""RFC 6298, 2.3: K."""
_ANSWERS_UNTIL_LOST = 3
"""Times that answers take before a message is given up: one for it to come by itself, two for
announcers."""
_ANSWERS_KNOWN_FOR = 30.0
"""Seconds after the last answer for which the learned time holds: load passes."""


class GraftWait:
    """The waits for announcements of standbys, by neighbour, and of all others, and for answers."""

    __slots__ = ("_answers", "_answers_until", "_lags", "_wait")

    def __init__(self) -> None:
        self._wait = _FIRST_WAIT
        self._answers: Rtt | None = None
        """How much longer than a round trip answers to GRAFTs take, of all neighbours: where they
        take long, it is mostly because we or they are behind."""
        self._answers_until: Time = -NEVER
        self._lags: dict[PeerId, float] = {}
        """How much later than a standby's announcement the message comes by itself."""

    def add_standby(self, peer: PeerId) -> None:
        self._lags.setdefault(peer, _FIRST_LAG)

    def remove_standby(self, peer: PeerId) -> None:
        self._lags.pop(peer, None)

    def after_announcement(self, peer: PeerId, now: Time) -> float:
        """Seconds to wait for what `peer` has just announced."""
        lag = self._lags.get(peer)
        if lag is None:
            return min(self._wait, self._most(_MOST_WAIT, now))
        return _LAG_FACTOR * min(lag, self._most(_MOST_LAG, now)) + _LAG_MARGIN

    def _most(self, usual: float, now: Time) -> float:
        """The longest wait for what comes by itself: `usual`, or as long as answers take. Where
        those take longer queues are long, and further copies would make them longer still."""
        if self._answers is None or now > self._answers_until:
            return usual
        return max(usual, min(_MOST_ANSWER_TIME, self._answers.mean))

    def until_lost(self, now: Time) -> float:
        """Seconds after which a message is given up, once each announcer was asked."""
        return max(LOST_AFTER, _ANSWERS_UNTIL_LOST * self.for_answer(now))

    def for_answer(self, now: Time) -> float:
        """Seconds that a neighbour may take to answer a GRAFT, beside two round trips."""
        if self._answers is None or now > self._answers_until:
            return _ANSWER_TIME
        learned = self._answers.mean + _ANSWER_SPREADS * self._answers.spread
        return min(_MOST_ANSWER_TIME, max(_ANSWER_TIME, learned))

    def note_known(self, peer: PeerId) -> None:
        """`peer` announced a message that we have."""
        if peer in self._lags:
            self._lags[peer] *= _LAG_DECAY

    def note_first_copy(
        self, peer: PeerId | None, missing: MissingMessage, at: Time, rtt: float | None = None
    ) -> None:
        """The first copy of a missing message came from `peer`, a round trip of `rtt` seconds away,
        at time `at`."""
        asked_at = missing.asked_at.get(peer)
        if asked_at is None:
            self.note_pushed_copy(missing, at)
            return
        self._wait = max(_LEAST_WAIT, _SHRINK * self._wait)
        if at > self._answers_until:
            self._answers = None
        took = max(0.0, at - asked_at - (rtt or 0.0))
        self._answers = updated(self._answers, min(took, _MOST_ANSWER_TIME))
        self._answers_until = at + _ANSWERS_KNOWN_FOR

    def note_pushed_copy(self, missing: MissingMessage, at: Time) -> None:
        """A copy of a message that was missing came without our asking, at time `at`."""
        late = at - missing.announced_at
        first = missing.announcers[0][0]
        lag = self._lags.get(first)
        if lag is not None:
            grown = min(self._most(_MOST_LAG, at), lag + _LAG_GAIN * (late - lag))
            self._lags[first] = grown if late > lag else max(late, _LAG_DECAY * lag)
        # Had we waited a little longer, it would have cost one copy less.
        if missing.asked and self._wait < late <= 2 * self._wait + _FIRST_WAIT:
            self._wait = min(self._most(_MOST_WAIT, at), _GROW * late)

    def clear(self) -> None:
        self._lags.clear()
        self._wait = _FIRST_WAIT
        self._answers = None
