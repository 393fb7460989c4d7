"""The table of what earns and costs, and what follows from a standing.

In the manner of gossipsub v1.1's peer scores, P2 (first deliveries), P4 (invalid messages), P5
(the application's word) and P7 (broken promises), without P3: a peer that is never the first, as
where its link is slow, loses nothing.
"""

from __future__ import annotations

FIRST_COPY = 1.0
"""Earned by the first copy of a message that proves valid. gossipsub: P2, weight 1."""

KEPT_PROMISE = 1.0
"""Earned by an answer to a GRAFT. Ours: as a first copy, which it mostly is."""

BROKEN_PROMISE = -4.0
"""Ours: a peer that keeps four of five stands as it stood; 5 % of all frames may be lost, in both
directions."""

FORGED_PAYLOAD = -10.0
"""Of a payload, a piece or a preamble. Ours: no correct peer forwards one, so that five are enough.
gossipsub: P4, the square of their number."""

MOST = 10.0
"""What can be earned at most, so that nobody saves up for an attack. gossipsub: P2's cap."""

LEAST = -60.0
"""Ours: beyond BAN_BELOW it only takes longer to be forgiven."""

HALF_LIFE = 120.0
"""Seconds in which a standing loses half, good or bad. Ours: some of a hundred messages decide."""

BAD_BELOW = -10.0
"""Asked last, and beside another; no candidate for parent. Ours: three promises broken and none
kept."""

BAN_BELOW = -40.0
"""Disconnected, for BAN_TIME. Ours: eleven promises broken and none kept, of which BROKEN_AT_ONCE
count in 15 seconds, or five forged payloads."""

BAN_TIME = 600.0
"""Seconds. Ours: ten times gossipsub's back-off after a PRUNE."""

SILENCE = 15.0
"""Seconds until a promise is broken in which its peer sent no payload at all: a peer that sends
has a backlog. Ours: a first message of a megabyte takes 13 s over eight links at 5 Mbit/s."""

BROKEN_AT_ONCE = 8
"""Broken promises of one peer that cost it something within SILENCE. Ours: hundreds asked in one
moment break in one moment, where either end is behind: that alone is no reason to ban. Measured:
5,000 messages without a pause from one of twenty hosts on one core had honest hosts banned; with 4,
p99 of the second minute of attacks is up to 20 % longer."""

LONGEST_BACKLOG = 60.0
"""Seconds after which it is broken whatever the peer sends. Ours: 37 MB at 5 Mbit/s."""
