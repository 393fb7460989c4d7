"""Messages that the overlay can't carry (yet): fanout, and replay to those who come late."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random

import trio
from libp2p.peer.id import ID

from episub_router.net.params import RouterParams
from episub_router.protocol.messages import Gossip


@dataclass(frozen=True, slots=True)
class _Recent:
    at: float
    gossip: Gossip
    sent_to: set[ID]


class Fanout:
    """For topics that this node publishes to without having joined them: a few subscribers,
    the same ones as long as publishing goes on. Bounded by `fanout_topics`."""

    def __init__(self, params: RouterParams, rng: Random) -> None:
        self._params = params
        self._rng = rng
        self.peers: dict[str, set[ID]] = {}
        """Chosen subscribers by topic; the topic published to last comes last."""
        self._until: dict[str, float] = {}

    def choose(self, topic: str, subscribers: Iterable[ID]) -> list[ID]:
        """The subscribers to send to: those chosen before that are still there, and new ones
        up to `fanout_degree`."""
        now = trio.current_time()
        for stale in [name for name, until in self._until.items() if until <= now]:
            self.leave(stale)
        there = sorted(subscribers, key=ID.to_bytes)
        before = self.peers.pop(topic, set())
        chosen = [peer for peer in there if peer in before]
        others = [peer for peer in there if peer not in chosen]
        missing = max(0, self._params.fanout_degree - len(chosen))
        chosen += self._rng.sample(others, min(missing, len(others)))
        self.peers[topic] = set(chosen)
        self._until[topic] = now + self._params.fanout_ttl
        if len(self.peers) > self._params.fanout_topics:
            self.leave(next(iter(self.peers)))
        return chosen

    def leave(self, topic: str) -> None:
        """The topic was joined, or published to too long ago."""
        self.peers.pop(topic, None)
        self._until.pop(topic, None)

    def remove(self, peer: ID) -> None:
        for peers in self.peers.values():
            peers.discard(peer)


class Replay:
    """Own messages that may have reached nobody, for subscribers that turn up soon after.

    Bounded by `replay_window`, `replay_messages` per topic and `fanout_topics`.
    """

    def __init__(self, params: RouterParams) -> None:
        self._params = params
        self._recent: dict[str, deque[_Recent]] = {}

    def remember(self, topic: str, gossip: Gossip, sent_to: Iterable[ID] = ()) -> None:
        """Keep `gossip` for those who subscribe to `topic` within the window."""
        recent = self._recent.pop(topic, None) or deque(maxlen=self._params.replay_messages)
        self._recent[topic] = recent
        recent.append(_Recent(trio.current_time(), gossip, set(sent_to)))
        if len(self._recent) > self._params.fanout_topics:
            del self._recent[next(iter(self._recent))]

    def take(self, topic: str, peer: ID) -> list[Gossip]:
        """What `peer` has not been sent and is still within the window, oldest first."""
        recent = self._recent.get(topic)
        if recent is None:
            return []
        oldest = trio.current_time() - self._params.replay_window
        while recent and recent[0].at < oldest:
            recent.popleft()
        if not recent:
            del self._recent[topic]
        fresh = [entry for entry in recent if peer not in entry.sent_to]
        for entry in fresh:
            entry.sent_to.add(peer)
        return [entry.gossip for entry in fresh]
