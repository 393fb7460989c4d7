"""A plain test loop: nodes of the core, links with a fixed delay, a heap of what is to come.

Nodes are small ints. Every pair can connect; a dial takes three link delays. Deliveries,
payload copies and drops are recorded.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from itertools import count
from random import Random

from episub_router.protocol import effects as ef
from episub_router.protocol import events as ev
from episub_router.protocol.messages import Gossip, Message
from episub_router.protocol.params import EpisubParams
from episub_router.protocol.pieces.cutting import cut, joined
from episub_router.protocol.topic import Topic


def _constant(delay: float, a: int, b: int) -> float:
    return delay


def _nowhere(a: int, b: int) -> bool:
    return False


def _unchanged(a: int, b: int, message: Message) -> Message:
    return message


class Network:
    """`size` nodes, not joined yet; `delay` is seconds per link, or a function of the pair."""

    def __init__(
        self,
        size: int,
        params: EpisubParams | None = None,
        seed: int = 0,
        delay: float | Callable[[int, int], float] = 0.02,
    ) -> None:
        self.params = params or EpisubParams()
        self.rng = Random(seed)
        self.delay = delay if callable(delay) else partial(_constant, delay)
        self.now = 0.0
        self.topics: dict[int, Topic] = {}
        self.dead: set[int] = set()
        self.unreachable: set[int] = set()
        """Nodes that can dial and can't be dialled."""
        self.cut: Callable[[int, int], bool] = _nowhere
        """Whether messages between two nodes are silently lost."""
        self.carried: Callable[[int, int, Message], Message] = _unchanged
        """What of a message between two nodes arrives."""
        self.connections: dict[frozenset[int], int] = {}
        """Open connections, each with a number: what is in flight ends with its connection."""
        self.delivered: dict[object, Counter[int]] = {}
        self.payloads: dict[tuple[int, object], object] = {}
        self.copies: Counter[object] = Counter()
        self.sent: Counter[str] = Counter()
        self.drops: Counter[ef.DropReason] = Counter()
        self._order = count()
        self._queue: list[tuple[float, int, Callable[[], object]]] = []
        self._timers: dict[int, float] = {}
        for node in range(size):
            self.add(node)

    def add(self, node: int, params: EpisubParams | None = None) -> None:
        """A new node, or an old one started afresh without its memory."""
        rng = Random(self.rng.random())
        self.topics[node] = Topic(node, "t", params or self.params, rng)
        self._timers.pop(node, None)
        for counts in self.delivered.values():
            del counts[node]

    @property
    def live(self) -> list[int]:
        return [node for node in self.topics if node not in self.dead]

    def at(self, time: float, action: Callable[[], object]) -> None:
        heapq.heappush(self._queue, (time, next(self._order), action))

    def run(self, seconds: float) -> None:
        """Let `seconds` pass."""
        end = self.now + seconds
        while self._queue and self._queue[0][0] <= end:
            self.now, _, action = heapq.heappop(self._queue)
            action()
        self.now = end

    def feed(self, node: int, event: ev.Event) -> list[ef.Effect]:
        if node in self.dead:
            return []
        effects = self.topics[node].handle(event, self.now)
        self.act(node, effects)
        return effects

    def join(self, node: int, *contacts: int) -> None:
        self.feed(node, ev.JoinOverlay(tuple(contacts)))

    def join_all(self, spread: float = 2.0, contact: int = 0) -> None:
        """Everybody joins through one contact, within `spread` seconds."""
        self.join(contact)
        for node in self.live:
            if node != contact:
                self.at(
                    self.now + self.rng.uniform(0, spread), lambda n=node: self.join(n, contact)
                )

    def publish(self, node: int, id: object, size: int = 100, source: object = None) -> None:
        self.feed(node, ev.Publish(id, f"payload {id}", size, source))

    def publish_in_pieces(self, node: int, id: object, data: bytes) -> None:
        preamble, pieces = cut(id, node, data)
        self.feed(node, ev.PublishInPieces(preamble, pieces, data, len(data)))

    def leave(self, node: int, proof: bytes = b"") -> None:
        self.feed(node, ev.LeaveOverlay(proof))

    def disconnect(self, a: int, b: int) -> None:
        """End the connection between two live nodes."""
        del self.connections[frozenset((a, b))]
        self.feed(a, ev.PeerDown(b))
        self.feed(b, ev.PeerDown(a))

    def partition(self, *sides: set[int]) -> None:
        """Cut all connections between nodes of different `sides`; nobody can dial across."""

        def cut(a: int, b: int) -> bool:
            return not any(a in side and b in side for side in sides)

        self.cut = cut
        for a, b in [tuple(pair) for pair in self.connections if len(pair) == 2]:
            if cut(a, b):
                self.disconnect(a, b)

    def heal(self) -> None:
        self.cut = _nowhere

    def kill(self, nodes: Iterable[int], noticed_after: float = 0.1) -> None:
        """Crash `nodes`; peers connected to one are notified a little later."""
        for node in nodes:
            self.dead.add(node)
            for pair in [pair for pair in self.connections if node in pair]:
                del self.connections[pair]
                (other,) = pair - {node}
                self.at(
                    self.now + noticed_after,
                    partial(self.feed, other, ev.PeerDown(node)),
                )

    # What nodes want

    def act(self, node: int, effects: list[ef.Effect]) -> None:
        for effect in effects:
            match effect:
                case ef.Send(peer, message):
                    self._send(node, peer, message)
                case ef.Dial(peer):
                    self._dial(node, peer)
                case ef.MeasureRtt(peer):
                    rtt = 2 * self.delay(node, peer)
                    answer = ev.RttMeasured(peer, None if peer in self.dead else rtt)
                    self.at(self.now + rtt, partial(self.feed, node, answer))
                case ef.Deliver(id, payload):
                    self.payloads[node, id] = payload
                    self.delivered.setdefault(id, Counter())[node] += 1
                case ef.Dropped(_, reason):
                    self.drops[reason] += 1
                case ef.Assembled(preamble, pieces, by):
                    data = joined(pieces)
                    size, source = len(data), preamble.source
                    self.feed(node, ev.PayloadAccepted(by, preamble.id, data, size, source))
        self._set_timer(node)

    def _send(self, node: int, peer: int, message: Message) -> None:
        pair = frozenset((node, peer))
        connection = self.connections.get(pair)
        assert connection is not None or peer in self.dead, (
            f"{node} sends {message} to {peer} without a connection"
        )
        self.sent[type(message).__name__] += 1
        if isinstance(message, Gossip):
            self.copies[message.id] += 1
        if not self.cut(node, peer):
            event = ev.Received(node, self.carried(node, peer, message))
            arrival = partial(self._arrive, pair, connection, peer, event)
            self.at(self.now + self.delay(node, peer), arrival)

    def _arrive(
        self, pair: frozenset[int], connection: int | None, peer: int, event: ev.Event
    ) -> None:
        if self.connections.get(pair) == connection:
            self.feed(peer, event)

    def _dial(self, node: int, peer: int) -> None:
        outcome = partial(self._end_dial, node, peer)
        self.at(self.now + 3 * self.delay(node, peer), outcome)

    def _end_dial(self, node: int, peer: int) -> None:
        if peer in self.dead or peer in self.unreachable or self.cut(node, peer):
            self.feed(node, ev.DialFailed(peer))
        elif node not in self.dead:
            self.connections.setdefault(frozenset((node, peer)), next(self._order))
            self.feed(peer, ev.Connected(node))
            self.feed(node, ev.Connected(peer))

    def _set_timer(self, node: int) -> None:
        deadline = self.topics[node].next_deadline()
        if deadline < self._timers.get(node, float("inf")):
            self._timers[node] = deadline
            self.at(deadline, partial(self._on_timer, node))

    def _on_timer(self, node: int) -> None:
        gone = node in self.dead or node not in self.topics
        if gone or self._timers.get(node) != self.now:
            return
        del self._timers[node]
        self.act(node, self.topics[node].handle_timer(self.now))

    # What tests look at

    def neighbors(self, node: int) -> set[int]:
        return set(self.topics[node].membership.active)

    def one_sided(self) -> list[tuple[int, int]]:
        """Links that only one side believes in."""
        return [
            (node, peer)
            for node in self.live
            for peer in self.neighbors(node)
            if peer in self.dead or node not in self.neighbors(peer)
        ]

    def components(self) -> int:
        """Connected components of the live overlay."""
        unseen, found = set(self.live), 0
        while unseen:
            found += 1
            reached = {unseen.pop()}
            while reached:
                reached = {p for n in reached for p in self.neighbors(n)} & unseen
                unseen -= reached
        return found

    def missed(self, id: object) -> set[int]:
        """Live nodes that have not delivered `id` exactly once."""
        got = self.delivered.get(id, Counter())
        return {node for node in self.live if got[node] != 1}

    def rmr(self, id: object) -> float:
        """Relative message redundancy: m/(n-1) - 1 (Plumtree, section 4)."""
        return self.copies[id] / (len(self.delivered[id]) - 1) - 1
