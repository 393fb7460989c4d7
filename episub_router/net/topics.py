"""The machines of a node's topics: events in, effects out, timers.

One event is handled at a time. What an effect causes at once (an answer to a dial that needs
no dialling, a payload for which there was no room) is queued behind it, so that a machine is
never entered while it is working.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import trio
from libp2p.abc import INetworkService
from libp2p.peer.id import ID

from episub_router.net.connections.ping import Pinger
from episub_router.net.counters import Counters, Ordinary, Reason
from episub_router.net.events import (
    Alone,
    Banned,
    Joined,
    MessageLost,
    NeighborDown,
    NeighborUp,
    TopicEvents,
)
from episub_router.net.outbound import Outbound
from episub_router.net.peers import PeerListener, PeerTable, RemotePeer
from episub_router.protocol import effects as ef
from episub_router.protocol import events as ev
from episub_router.protocol.messages import Gossip, Message
from episub_router.protocol.params import EpisubParams
from episub_router.protocol.piece_messages import Piece
from episub_router.protocol.plumtree.lazy_push import ANNOUNCE_WINDOW
from episub_router.protocol.topic import Topic
from episub_router.protocol.types import NEVER, GroupOf
from episub_router.trace.node.overlay import OverlayTrace
from episub_router.wire.source import id_bytes, source_id

_MESSAGES_PER_FRAME = 32

_AT_REST = 30.0
"""Seconds after the last event from outside at which timers need not be exact any more; chosen."""

_SPACING = 5.0
"""Seconds between two looks at timers then, at least. Chosen: half of most periods of upkeep,
several of which one wake-up serves."""

FIRST_ANNOUNCEMENTS = ANNOUNCE_WINDOW + 1.0
"""Seconds after a topic's first link in which neighbours may announce what they had before it; the
second is for the announcement to come."""


@dataclass(eq=False, slots=True)
class JoinedTopic:
    """A topic that this node is in."""

    machine: Topic
    neighbors: set[ID] = field(default_factory=set)  # its active view
    hops: Counter[int] = field(default_factory=Counter)  # deliveries by how far they came
    lost_all: bool = False  # whether it had neighbours, and lost all of them
    old_until: float = -NEVER  # until when what is announced may be old, and isn't wanted


@dataclass(eq=False)
class TopicDriver(PeerListener):
    """The machines of all topics that this node is in."""

    me: bytes
    params: EpisubParams
    joined: dict[str, JoinedTopic]
    rng: Random
    counters: Counters
    peers: PeerTable
    outbound: Outbound
    pinger: Pinger
    assembled: Callable[[str, ef.Assembled], None]
    """Takes a message whose pieces are all here."""
    network: INetworkService
    """Is asked to keep the connections of neighbours."""
    events: TopicEvents
    group_of: GroupOf
    secret: bytes
    may_ban: Callable[[str, ID], bool] | None = None
    protected_topics: Container[str] = ()

    def __post_init__(self) -> None:
        self.trace: OverlayTrace | None = None
        self.without_history: set[str] = set()
        """Topics whose next `join` is to bring nothing that neighbours had before."""
        self.links_changed = trio.lowlevel.ParkingLot()
        """To wait in until a neighbour comes or goes; gossipsub's side unparks it, too."""
        self._queue: deque[tuple[str, ev.Event | None]] = deque()
        """What is to be handled, by topic; None is the timer."""
        self._standings: dict[bytes, float] = {}
        """Those that the application has set."""
        self._busy = False
        self._fed_at = -NEVER
        """When something other than a timer last happened."""
        self._stopped = False
        self._sleep = trio.CancelScope()
        """Ends when the next timer is due."""

    def machine(self, topic: str) -> Topic | None:
        """The machine of a topic that this node is in."""
        joined = self.joined.get(topic)
        return None if joined is None else joined.machine

    def neighbors(self) -> dict[str, set[ID]]:
        """The active view of each joined topic; other threads, too, may ask for it."""
        return {topic: joined.neighbors for topic, joined in list(self.joined.items())}

    def hops(self, topic: str) -> Mapping[int, int]:
        """How many messages of `topic` were delivered after how many hops."""
        joined = self.joined.get(topic)
        return {} if joined is None else dict(joined.hops)

    # What happened

    def join(self, topic: str, contacts: tuple[bytes, ...]) -> None:
        """The application subscribed."""
        history = topic not in self.without_history
        self.without_history.discard(topic)
        if self._stopped:
            return
        if topic not in self.joined:
            self._make(topic)
        if not history:
            self.joined[topic].old_until = NEVER
        self.feed(topic, ev.JoinOverlay(contacts))

    def _make(self, topic: str) -> None:
        protected = topic in self.protected_topics
        machine = Topic(
            self.me,
            topic,
            self.params.protected() if protected else self.params,
            Random(self.rng.getrandbits(64)),
            self.group_of,
            clock=time.time() - trio.current_time(),
            may_ban=partial(self._lets_ban, topic),
            secret=self.secret + topic.encode(),
            source_of=lambda peer: source_id(id_bytes(peer)),
        )
        self.joined[topic] = JoinedTopic(machine)
        for key, standing in self._standings.items():
            self._queue.append((topic, ev.StandingSet(key, standing)))
        for peer in self.peers.writable():
            self._queue.append((topic, _connected(peer)))

    def leave(self, topic: str, proof: bytes) -> None:
        """The application unsubscribed."""
        if topic in self.joined:
            self.feed(topic, ev.LeaveOverlay(proof))
            del self.joined[topic]

    def may_ask(self, topic: str) -> bool:
        """Whether what is announced in `topic` now is wanted: it may be old."""
        return trio.current_time() >= self.joined[topic].old_until

    def set_standing(self, peer: bytes, standing: float) -> None:
        """The application's word on `peer`, in all topics."""
        self._standings[peer] = standing
        if not standing:
            del self._standings[peer]
        self._feed_each(self.joined, ev.StandingSet(peer, standing))

    def contacts_found(self, topic: str, contacts: tuple[bytes, ...]) -> None:
        """Peers that a discovery says are in `topic`."""
        self.counters.add(Ordinary.CONTACTS_FOUND, len(contacts))
        self.feed(topic, ev.ContactsFound(contacts))

    def query(self, topic: str, peer: RemotePeer) -> bool:
        """Ask `peer` for its list; False if it isn't a neighbour in `topic`."""
        if topic not in peer.topics:
            return False
        self.feed(topic, ev.NeighborQueried(peer.key))
        return True

    def peer_writable(self, peer: RemotePeer) -> None:
        peer.topics_dialling.clear()
        self._feed_each(self.joined, _connected(peer))

    def peer_lost(self, peer: RemotePeer) -> None:
        self._feed_each(self.joined, ev.PeerDown(peer.key))

    def peer_silent(self, peer: RemotePeer) -> None:
        self._feed_each(self.joined, ev.Silent(peer.key))

    def dial_failed(self, peer: RemotePeer) -> None:
        waiting, peer.topics_dialling = peer.topics_dialling, {}
        self._feed_each(waiting, ev.DialFailed(peer.key))

    def _rtt_measured(self, peer: RemotePeer, rtt: float | None) -> None:
        if self.trace is not None:
            self.trace.measured(peer.key, rtt)
        waiting, peer.topics_measuring = peer.topics_measuring, {}
        self._feed_each(waiting, ev.RttMeasured(peer.key, rtt))

    def stop(self) -> None:
        """Forget all machines, for good. Pubsub may go on calling hooks, which do nothing then."""
        self._stopped = True
        for topic, joined in self.joined.items():
            for peer in joined.neighbors:
                self.network.unprotect(peer, _tag(topic))
        self.joined.clear()

    def feed(self, topic: str, event: ev.Event) -> None:
        """Hand `event` to the machine of `topic`, if there is one."""
        self._queue.append((topic, event))
        self._drain()

    def _feed_each(self, topics: Iterable[str], event: ev.Event) -> None:
        self._queue.extend((topic, event) for topic in topics)
        self._drain()

    # Timers

    async def run(self) -> None:
        """Fire the machines' timers, until cancelled."""
        while True:
            deadlines = (each.machine.next_deadline() for each in self.joined.values())
            until, now = min(deadlines, default=NEVER), trio.current_time()
            if now - self._fed_at >= _AT_REST:
                until = max(until, now + _SPACING)
            with trio.CancelScope(deadline=until) as self._sleep:
                await trio.sleep_forever()
            now = trio.current_time()
            self._queue.extend(
                (name, None)
                for name, each in self.joined.items()
                if each.machine.next_deadline() <= now
            )
            self._drain()

    # Steps and their effects

    def _drain(self) -> None:
        if self._busy:
            return
        self._busy = True
        try:
            while self._queue:
                name, event = self._queue.popleft()
                joined = self.joined.get(name)
                if joined is None:
                    continue
                now = trio.current_time()
                if event is not None:
                    self._fed_at = now
                try:
                    self._step(joined, event, now)
                except Exception:
                    self.counters.caught(f"{type(event).__name__} in a topic")
                self._sleep.deadline = min(self._sleep.deadline, joined.machine.next_deadline())
        finally:
            self._busy = False

    def _step(self, joined: JoinedTopic, event: ev.Event | None, now: float) -> None:
        machine = joined.machine
        effects = machine.handle_timer(now) if event is None else machine.handle(event, now)
        if self.trace is not None:
            self.trace.stepped(machine, effects)
        self._perform(joined, effects)

    def _perform(self, joined: JoinedTopic, effects: list[ef.Effect]) -> None:
        """Perform `effects`. Control messages to one peer share a frame, pieces follow them, and
        what is released is released last, since a goodbye comes before."""
        control: dict[Any, list[Message]] = {}
        pieces: list[tuple[Any, Piece]] = []
        released: list[Any] = []
        machine, topic = joined.machine, joined.machine.name
        for effect in effects:
            if isinstance(effect, ef.Send):
                key: Any = effect.peer
                message = effect.message
                if isinstance(message, Piece):
                    pieces.append((key, message))
                elif not isinstance(message, Gossip):
                    control.setdefault(key, []).append(message)
                elif not self.outbound.send(self.peers[key], topic, (message,)):
                    self._queue.append((topic, ev.PayloadDropped(key, message.id, message.hops)))
            elif isinstance(effect, ef.Release):
                released.append(effect.peer)
            else:
                self._perform_other(topic, joined, effect)
        for key, messages in control.items():
            for start in range(0, len(messages), _MESSAGES_PER_FRAME):
                batch = tuple(messages[start : start + _MESSAGES_PER_FRAME])
                self.outbound.send(self.peers[key], topic, batch)
        for key, piece in pieces:
            more = 0 if machine.pieces is None else machine.pieces.more(piece.id, key)
            sent = self.outbound.send_piece(self.peers[key], topic, piece, more)
            if not sent and machine.pieces is not None:
                machine.pieces.not_sent(piece, key)
        for key in dict.fromkeys(key for key, _ in pieces):
            self.outbound.flush(self.peers[key])
        for key in released:
            self.peers.release(self.peers[key])

    def _perform_other(self, topic: str, joined: JoinedTopic, effect: Any) -> None:
        match effect:
            case ef.Deliver(hops=hops):
                self.counters.add(Ordinary.DELIVERED)
                joined.hops[hops] += 1
            case ef.Dropped(reason=reason):
                self.counters.add(reason)
                if reason is ef.DropReason.MESSAGE_LOST:
                    self.events.emit(MessageLost(topic))
            case ef.Assembled():
                self.assembled(topic, effect)
            case _:
                self._perform_on(topic, joined, self.peers[effect.peer], effect)

    def _perform_on(self, topic: str, joined: JoinedTopic, peer: RemotePeer, effect: Any) -> None:
        match effect:
            case ef.Dial() if self.peers.is_writable(peer):
                self._queue.append((topic, _connected(peer)))
            case ef.Dial(for_others=for_others):
                peer.topics_dialling[topic] = None
                self.peers.request(peer, for_others)
            case ef.MeasureRtt():
                is_first = not peer.topics_measuring
                peer.topics_measuring[topic] = None
                if is_first:
                    self.pinger.request(peer, self._rtt_measured)
            case ef.NeighborUp():
                self.peers.note_use(peer)
                self._link_up(topic, joined, peer)
            case ef.NeighborDown(reason=reason):
                self._link_down(topic, joined, peer, reason)
            case ef.Ban(seconds=seconds):
                self.counters.add(Reason.BANS)
                self.peers.ban(peer, seconds)
                self.events.emit(Banned(topic, peer.id, seconds))

    def _link_up(self, topic: str, joined: JoinedTopic, peer: RemotePeer) -> None:
        joined.neighbors.add(peer.id)
        peer.topics[topic] = None
        self.network.protect(peer.id, _tag(topic))
        self.links_changed.unpark_all()
        self.events.emit(NeighborUp(topic, peer.id, len(joined.neighbors)))
        if len(joined.neighbors) == 1:
            self.events.emit(Joined(topic, peer.id, joined.lost_all))
            joined.lost_all = False
        if joined.old_until == NEVER:
            joined.old_until = trio.current_time() + FIRST_ANNOUNCEMENTS

    def _link_down(
        self, topic: str, joined: JoinedTopic, peer: RemotePeer, reason: ef.DownReason
    ) -> None:
        joined.neighbors.discard(peer.id)
        peer.forget_topic(topic)
        self.network.unprotect(peer.id, _tag(topic))
        self.links_changed.unpark_all()
        self.events.emit(NeighborDown(topic, peer.id, len(joined.neighbors), reason))
        if not joined.neighbors:
            joined.lost_all = True
            self.events.emit(Alone(topic))

    def _lets_ban(self, topic: str, peer: Any) -> bool:
        with suppress(Exception):  # of the application's function
            return self.may_ban is None or bool(self.may_ban(topic, ID(peer)))
        return False


def is_in_a_view(joined: Mapping[str, JoinedTopic], peer: bytes) -> bool:
    """Whether a topic has `peer` in its active or passive view."""
    views = [each.machine.membership for each in joined.values()]
    return any(peer in view.active or peer in view.passive for view in views)


def _tag(topic: str) -> str:
    """Under which the connections of its neighbours are protected."""
    return f"episub/{topic}"


def _connected(peer: RemotePeer) -> ev.Connected:
    return ev.Connected(peer.key, probed=peer.probed is True)
