"""Pubsub's messages on their way to the topics' machines, and those that no machine can
carry (yet): fanout, and replay to peers that come late."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from random import Random
from typing import Any

import trio
from libp2p.peer.id import ID
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from episub_router.net.counters import Counters, Ordinary, Reason
from episub_router.net.large_messages import LargeMessages
from episub_router.net.outbound import Outbound
from episub_router.net.peers import PeerTable, RemotePeer
from episub_router.net.topics import TopicDriver
from episub_router.protocol import events as ev
from episub_router.protocol.messages import Gossip
from episub_router.util.bounded import put_last
from episub_router.util.message_size import message_size
from episub_router.wire import source_id

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


@dataclass(eq=False)
class Payloads:
    """Messages of this node, and those of others that Pubsub has validated."""

    pubsub: Pubsub
    counters: Counters
    peers: PeerTable
    topics: TopicDriver
    outbound: Outbound
    large: LargeMessages
    rng: Random

    def __post_init__(self) -> None:
        self._me = self.pubsub.my_id.to_bytes()
        self._secret = self.rng.randbytes(32)
        self.fanout = Fanout(self.rng)
        self._replay = Replay()

    def publish(self, forwarder: ID, message: rpc_pb2.Message) -> None:
        """`message` is valid: our own, or the first copy of another node's."""
        id, size = self.pubsub.get_message_id(message), message_size(message)
        source, peer = source_id(message.from_id), forwarder.to_bytes()
        for topic in dict.fromkeys(message.topicIDs):
            joined = self.topics.joined.get(topic)
            if peer != self._me:
                if joined is not None:
                    event = ev.PayloadAccepted(peer, id, message, size, source)
                    self.topics.feed(topic, event)
                continue
            self.counters.add(Ordinary.PUBLISHED)
            gossip = Gossip(id, 1, message, size)
            if joined is None:
                self._publish_fanout(topic, gossip)
                continue
            if not joined.neighbors:
                self._replay.remember(topic, gossip)
            in_pieces = self.large.cut(message, id, size)
            # Where messages have no author, a tree's id names nobody, and no two topics' are alike.
            tree = source or source_id(self._secret + self._me + topic.encode())
            self.topics.feed(topic, in_pieces or ev.Publish(id, message, size, source, tree))

    def _publish_fanout(self, topic: str, gossip: Gossip) -> None:
        chosen = self.fanout.choose(topic, self.subscribers(topic))
        if not self.pubsub.peer_topics.get(topic):
            self.counters.add(Reason.FANOUT_EMPTY)
        if len(chosen) < self.fanout.degree:
            self._replay.remember(topic, gossip, chosen)
        for peer in chosen:
            self.outbound.send(self.peers[peer.to_bytes()], topic, (gossip,))

    def reject(self, forwarder: ID, message: rpc_pb2.Message, forged: bool) -> None:
        """A copy of `message` was not accepted; `forged`: its author didn't sign it."""
        id = self.pubsub.get_message_id(message)
        for topic in dict.fromkeys(message.topicIDs):
            machine = self.topics.machine(topic)
            if machine is None:
                continue
            # Of one in pieces the author signed what it is made of; those that passed it on
            # couldn't tell.
            forged = forged and not (machine.pieces is not None and id in machine.pieces)
            self.topics.feed(topic, ev.PayloadRejected(forwarder.to_bytes(), id, forged))

    def replay(self, peer: RemotePeer, topic: str) -> None:
        """Send `peer`, a new subscriber to `topic`, what was published before it subscribed."""
        if self.peers.is_writable(peer):
            for gossip in self._replay.take(topic, peer.id):
                self.outbound.send(peer, topic, (gossip,))

    def subscribers(self, topic: str) -> list[ID]:
        """Writable subscribers that speak Episub, in an order that doesn't depend on hashing."""
        subscribers = self.pubsub.peer_topics.get(topic, ())
        return sorted(
            (p for p in subscribers if self.peers.is_writable(self.peers[p.to_bytes()])),
            key=ID.to_bytes,
        )

    def receivers(self, topic: str) -> list[RemotePeer]:
        """Those that a message of ours in `topic` goes to at once."""
        machine = self.topics.machine(topic)
        if machine is None:
            return [self.peers[peer.to_bytes()] for peer in self.fanout.peers.get(topic, ())]
        keys: Any = dict.fromkeys(machine.broadcast.publishes_to())
        if machine.pieces is not None:
            keys |= dict.fromkeys(machine.pieces.publishes_to())
        return [self.peers[key] for key in keys]
