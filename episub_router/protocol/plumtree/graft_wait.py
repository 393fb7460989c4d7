"""How long to wait before requesting an announced message, and before asking the next announcer.

The waits are learned from what waiting would have brought (E34): for a standby, from how much later
the parent's copies come. The time to answer a GRAFT is learned from the answers.
"""

from __future__ import annotations

from episub_router.protocol.plumtree.message_cache import GossipMessage
from episub_router.protocol.plumtree.neighbor_record import NeighborRecord
from episub_router.protocol.rtt import Rtt, updated
from episub_router.protocol.types import NEVER, Time

# In seconds, or factors. Measured with 1,000 nodes, five sources, 10 % crashes and 5 % losses.
_FIRST_WAIT = 0.02
_LEAST_WAIT = 0.01
_MOST_WAIT = 1.0
_SHRINK = 0.8  # Of the wait, after a message that would not have arrived by itself
_GROW = 1.25  # Of the time after which a message did arrive by itself
FIRST_LAG = 0.02
_MOST_LAG = 0.5
_LAG_GAIN = 0.25  # As the spread of a round-trip time (RFC 6298)
_LAG_DECAY = 0.95
_LAG_FACTOR = 1.2
_LAG_MARGIN = 0.005

_ANSWER_TIME = 0.05  # Seconds beside two round trips, at least. Measured: one doubles p99 at worst
_LONGEST_ANSWER = 0.5  # Seconds, without a known RTT. Chosen: two round trips of the longest links
_MOST_ANSWER_TIME = 5.0  # Seconds. Chosen: more than a burst needs
_ANSWER_SPREADS = 4  # RFC 6298, 2.3: K
_ANSWERS_KNOWN_FOR = 30.0  # Seconds that the learned time holds. Chosen: load passes
LOST_AFTER = 5.0  # Seconds until a message is given up, once each announcer was asked, ...
_ANSWERS_UNTIL_LOST = 3  # ... or times that answers take: by itself, and from two announcers


class GraftWait:
    __slots__ = ("_answers", "_answers_until", "_wait")

    def __init__(self) -> None:
        self._wait = _FIRST_WAIT
        self._answers: Rtt | None = None  # How much longer than a round trip answers take
        self._answers_until: Time = -NEVER

    def after_announcement(self, link: NeighborRecord, now: Time) -> float:
        """Seconds to wait for what a neighbour has just announced."""
        if link.lag is None:
            return min(self._wait, self._most(_MOST_WAIT, now))
        return _LAG_FACTOR * min(link.lag, self._most(_MOST_LAG, now)) + _LAG_MARGIN

    def _most(self, usual: float, now: Time) -> float:
        """The longest wait: `usual`, or what answers take, as copies make long queues longer."""
        if self._answers is None or now > self._answers_until:
            return usual
        return max(usual, min(_MOST_ANSWER_TIME, self._answers.mean))

    def until_lost(self, now: Time) -> float:
        """Seconds after which a message is given up, once each announcer was asked."""
        return max(LOST_AFTER, _ANSWERS_UNTIL_LOST * self._for_answer(now))

    def patience(self, rtt: float | None, now: Time) -> float:
        """Seconds that a neighbour has to answer a GRAFT."""
        answer = self._for_answer(now)
        most = max(_LONGEST_ANSWER, answer)
        return most if rtt is None else min(most, 2 * rtt + answer)

    def _for_answer(self, now: Time) -> float:
        if self._answers is None or now > self._answers_until:
            return _ANSWER_TIME
        learned = self._answers.mean + _ANSWER_SPREADS * self._answers.spread
        return min(_MOST_ANSWER_TIME, max(_ANSWER_TIME, learned))

    def note_known(self, link: NeighborRecord) -> None:
        """A neighbour announced a message that we have."""
        if link.lag is not None:
            link.lag *= _LAG_DECAY

    def note_first_copy(
        self, message: GossipMessage, rtt: float | None, informant: NeighborRecord | None
    ) -> None:
        """The first copy of a missing message came; `informant` had announced it first."""
        asked_at = message.asked_at(message.sender)
        if asked_at is None:
            self.note_pushed_copy(message, message.arrived_at, informant)
            return
        self._wait = max(_LEAST_WAIT, _SHRINK * self._wait)
        if message.arrived_at > self._answers_until:
            self._answers = None
        took = max(0.0, message.arrived_at - asked_at - (rtt or 0.0))
        self._answers = updated(self._answers, min(took, _MOST_ANSWER_TIME))
        self._answers_until = message.arrived_at + _ANSWERS_KNOWN_FOR

    def note_pushed_copy(
        self, message: GossipMessage, at: Time, informant: NeighborRecord | None
    ) -> None:
        """A copy of a message that was missing came without our asking, at time `at`."""
        late = at - message.announced_at
        lag = None if informant is None else informant.lag
        if informant is not None and lag is not None:
            grown = min(self._most(_MOST_LAG, at), lag + _LAG_GAIN * (late - lag))
            informant.lag = grown if late > lag else max(late, _LAG_DECAY * lag)
        # Had we waited a little longer, it would have cost one copy less.
        if message.asked and self._wait < late <= 2 * self._wait + _FIRST_WAIT:
            self._wait = min(self._most(_MOST_WAIT, at), _GROW * late)
