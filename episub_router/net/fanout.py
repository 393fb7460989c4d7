"""Messages that the overlay can't carry (yet): fanout, and replay to peers that come late."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

import trio
from libp2p.peer.id import ID

from episub_router.protocol.messages import Gossip
from episub_router.util.bounded import put_last

FANOUT_TTL = 60.0
"""Seconds; gossipsub: fanout_ttl 60 s."""

FANOUT_DEGREE = 4
"""Subscribers that get what is published to a topic without joining it. The specification's C_rand,
which is what a joining node gets."""

MAX_TOPICS = 64
"""Topics published to without subscribing; chosen."""

REPLAY_WINDOW = 30.0
"""Seconds; chosen: two dials and a pubsub stream in turn, each of which takes up to 10 s on a busy
machine."""

MAX_REPLAYED = 32
"""Messages of a topic; gossipsub: a late subscriber is handed 32."""


class Fanout:
    """For topics that this node publishes to without having joined them: a few subscribers,
    the same ones as long as publishing goes on. Bounded by `MAX_TOPICS`."""

    def __init__(self, rng: Random, degree: int | None = None) -> None:
        self.degree = degree or FANOUT_DEGREE
        self._rng = rng
        self._chosen: dict[str, tuple[float, set[ID]]] = {}
        """Until when, and who, by topic; the topic published to last comes last."""

    @property
    def peers(self) -> dict[str, set[ID]]:
        """Chosen subscribers by topic."""
        return {topic: peers for topic, (_, peers) in self._chosen.items()}

    def choose(self, topic: str, subscribers: Iterable[ID]) -> list[ID]:
        """The subscribers to send to: those chosen before that are still there, and new ones
        up to `degree`."""
        now = trio.current_time()
        for stale in [name for name, (until, _) in self._chosen.items() if until <= now]:
            self.leave(stale)
        there = sorted(subscribers, key=ID.to_bytes)
        _, before = self._chosen.get(topic, (now, ()))
        chosen = [peer for peer in there if peer in before]
        others = [peer for peer in there if peer not in chosen]
        missing = max(0, self.degree - len(chosen))
        chosen += self._rng.sample(others, min(missing, len(others)))
        put_last(self._chosen, topic, (now + FANOUT_TTL, set(chosen)), MAX_TOPICS)
        return chosen

    def leave(self, topic: str) -> None:
        """The topic was joined, or published to too long ago."""
        self._chosen.pop(topic, None)


@dataclass(frozen=True, slots=True)
class _Recent:
    at: float
    gossip: Gossip
    sent_to: set[ID]


class Replay:
    """Own messages published without enough subscribers, for those that subscribe soon after.

    Bounded by `REPLAY_WINDOW`, `MAX_REPLAYED` per topic and `MAX_TOPICS`.
    """

    def __init__(self) -> None:
        self._recent: dict[str, deque[_Recent]] = {}

    def remember(self, topic: str, gossip: Gossip, sent_to: Iterable[ID] = ()) -> None:
        """Keep `gossip` for peers that subscribe to `topic` within the window."""
        recent = self._recent.get(topic) or deque(maxlen=MAX_REPLAYED)
        recent.append(_Recent(trio.current_time(), gossip, set(sent_to)))
        put_last(self._recent, topic, recent, MAX_TOPICS)

    def take(self, topic: str, peer: ID) -> list[Gossip]:
        """What `peer` has not been sent and is still within the window, oldest first."""
        oldest = trio.current_time() - REPLAY_WINDOW
        fresh = [each for each in self._recent.pop(topic, ()) if each.at >= oldest]
        if fresh:
            self._recent[topic] = deque(fresh, MAX_REPLAYED)
        new = [each for each in fresh if peer not in each.sent_to]
        for each in new:
            each.sent_to.add(peer)
        return [each.gossip for each in new]
