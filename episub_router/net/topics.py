"""The machines of a node's topics: events in, effects out, timers.

One event is handled at a time. What an effect causes at once (an answer to a dial that needs
no dialling, a payload for which there was no room) is queued behind it, so that a machine is
never entered while it is working.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Container, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import trio
from libp2p.abc import INetworkService
from libp2p.peer.id import ID

from episub_router.net.connections.ping import Pinger
from episub_router.net.counters import Counters, Reason
from episub_router.net.events import (
    Alone,
    Banned,
    Joined,
    MessageLost,
    NeighborDown,
    NeighborUp,
    TopicEvents,
)
from episub_router.net.large_messages import LargeMessages
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

logger = logging.getLogger(__name__)

_MESSAGES_PER_FRAME = 32

_AT_REST = 30.0
"""Seconds after the last event from outside at which timers need not be exact any more; chosen."""

_SPACING = 5.0
"""Seconds between two looks at timers then, at least. Chosen: half of most periods of upkeep,
several of which one wake-up serves."""

FIRST_ANNOUNCEMENTS = ANNOUNCE_WINDOW + 1.0
"""Seconds after a topic's first link in which neighbours may announce what they had before it; the
second is for the announcement to come."""


class Mesh:
    """Notes links, reports them as events, and protects them from the connection manager."""

    def __init__(self, network: INetworkService, events: TopicEvents) -> None:
        self._network = network
        self._events = events
        self.neighbors: dict[str, set[ID]] = {}
        """The active view of each joined topic."""
        self._alone: set[str] = set()
        """Joined topics that have lost all neighbours."""
        self._changed = trio.Event()

    def join(self, topic: str) -> None:
        self.neighbors.setdefault(topic, set())

    def leave(self, topic: str) -> None:
        self.neighbors.pop(topic, None)
        self._alone.discard(topic)

    def up(self, topic: str, peer: RemotePeer) -> None:
        """`peer` became a neighbour."""
        neighbors = self.neighbors.setdefault(topic, set())
        neighbors.add(peer.id)
        peer.topics[topic] = None
        self._network.protect(peer.id, f"episub/{topic}")
        self.notify()
        self._events.emit(NeighborUp(topic, peer.id, len(neighbors)))
        if len(neighbors) == 1:
            self._events.emit(Joined(topic, peer.id, topic in self._alone))
            self._alone.discard(topic)

    def down(self, topic: str, peer: RemotePeer, reason: ef.DownReason) -> None:
        """`peer` is a neighbour no longer."""
        neighbors = self.neighbors.get(topic, set())
        neighbors.discard(peer.id)
        peer.forget_topic(topic)
        self._network.unprotect(peer.id, f"episub/{topic}")
        self.notify()
        self._events.emit(NeighborDown(topic, peer.id, len(neighbors), reason))
        if not neighbors:
            self._alone.add(topic)
            self._events.emit(Alone(topic))

    def notify(self) -> None:
        """A neighbour came or went, of Episub's or of gossipsub's."""
        self._changed.set()
        self._changed = trio.Event()

    async def changed(self) -> None:
        """Return at the next `notify`."""
        await self._changed.wait()


@dataclass(eq=False)
class TopicDriver(PeerListener):
    """The machines of all topics that this node is in."""

    me: bytes
    params: EpisubParams
    machines: dict[str, Topic]
    rng: Random
    counters: Counters
    peers: PeerTable
    outbound: Outbound
    pinger: Pinger
    large: LargeMessages
    mesh: Mesh
    events: TopicEvents
    group_of: GroupOf
    may_ban: Callable[[str, ID], bool] | None = None
    protected_topics: Container[str] = ()

    def __post_init__(self) -> None:
        self.trace: OverlayTrace | None = None
        self._news_only: dict[str, float] = {}
        """Joined topics without their history, and until when announcements may be of it."""
        self._hops: dict[str, Counter[int]] = {}
        self._queue: deque[tuple[str, ev.Event | None]] = deque()
        """What is to be handled, by topic; None is the timer."""
        self._standings: dict[bytes, float] = {}
        """Those that the application has set."""
        self._busy = False
        self._fed_at = -NEVER
        """When something other than a timer last happened."""
        self._stopped = False
        self._asleep_until = NEVER
        self._wake = trio.Event()

    def joined(self, topic: str) -> Topic | None:
        """The machine of a topic that this node is in."""
        return self.machines.get(topic)

    def hops(self, topic: str) -> Mapping[int, int]:
        """How many messages of `topic` were delivered after how many hops."""
        return dict(self._hops.get(topic, {}))

    # What happened

    def join(self, topic: str, contacts: tuple[bytes, ...], history: bool = True) -> None:
        """The application subscribed. `history`: whether it wants what neighbours had before."""
        if self._stopped:
            return
        if not history:
            self._news_only[topic] = NEVER
        if topic not in self.machines:
            self._make(topic)
        self.feed(topic, ev.JoinOverlay(contacts))

    def _make(self, topic: str) -> None:
        protected = topic in self.protected_topics
        self.machines[topic] = Topic(
            self.me,
            topic,
            self.params.protected() if protected else self.params,
            Random(self.rng.getrandbits(64)),
            self.group_of,
            # Rounds of ROOT go on above those from before a restart.
            epoch=int(time.time()),
            may_ban=partial(self._lets_ban, topic),
        )
        for key, standing in self._standings.items():
            self._queue.append((topic, ev.StandingSet(key, standing)))
        for peer in self.peers.writable():
            self._queue.append((topic, _connected(peer)))

    def leave(self, topic: str, proof: bytes) -> None:
        """The application unsubscribed."""
        if self.joined(topic) is None:
            return
        self._news_only.pop(topic, None)
        self.feed(topic, ev.LeaveOverlay(proof))
        del self.machines[topic]
        self._hops.pop(topic, None)

    def may_ask(self, topic: str) -> bool:
        """Whether what is announced in `topic` now is wanted: it may be old."""
        if trio.current_time() < self._news_only.get(topic, -NEVER):
            return False
        self._news_only.pop(topic, None)
        return True

    def set_standing(self, peer: bytes, standing: float) -> None:
        """The application's word on `peer`, in all topics."""
        self._standings[peer] = standing
        if not standing:
            del self._standings[peer]
        self._feed_each(self.machines, ev.StandingSet(peer, standing))

    def contacts_found(self, topic: str, contacts: tuple[bytes, ...]) -> None:
        """Peers that a discovery says are in `topic`."""
        self.counters.add(Reason.CONTACTS_FOUND, len(contacts))
        self.feed(topic, ev.ContactsFound(contacts))

    def query(self, topic: str, peer: RemotePeer) -> bool:
        """Ask `peer` for its list; False if it isn't a neighbour in `topic`."""
        if topic not in peer.topics:
            return False
        self.feed(topic, ev.NeighborQueried(peer.key))
        return True

    def peer_writable(self, peer: RemotePeer) -> None:
        peer.topics_dialling.clear()
        self._feed_each(self.machines, _connected(peer))

    def peer_lost(self, peer: RemotePeer) -> None:
        self._feed_each(self.machines, ev.PeerDown(peer.key))

    def peer_silent(self, peer: RemotePeer) -> None:
        self._feed_each(self.machines, ev.Silent(peer.key))

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
        self.machines.clear()
        self.mesh.neighbors.clear()

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
            deadlines = (machine.next_deadline() for machine in self.machines.values())
            self._asleep_until = min(deadlines, default=NEVER)
            now = trio.current_time()
            if now - self._fed_at >= _AT_REST:
                self._asleep_until = max(self._asleep_until, now + _SPACING)
            self._wake = trio.Event()
            with trio.move_on_at(self._asleep_until):
                await self._wake.wait()
            now = trio.current_time()
            due = [name for name, each in self.machines.items() if each.next_deadline() <= now]
            self._queue.extend((name, None) for name in due)
            self._drain()

    # Steps and their effects

    def _drain(self) -> None:
        if self._busy:
            return
        self._busy = True
        try:
            while self._queue:
                name, event = self._queue.popleft()
                machine = self.machines.get(name)
                if machine is None:
                    continue
                now = trio.current_time()
                if event is not None:
                    self._fed_at = now
                self._step(machine, event, now)
                if machine.next_deadline() < self._asleep_until:
                    self._wake.set()
        finally:
            self._busy = False

    def _step(self, machine: Topic, event: ev.Event | None, now: float) -> None:
        """Let a machine take one step. A bug in there must not reach Pubsub, and through it the
        host, which would stop."""
        try:
            effects = machine.handle_timer(now) if event is None else machine.handle(event, now)
            if self.trace is not None:
                self.trace.stepped(machine, effects)
            self._perform(machine, effects)
        except Exception:
            self.counters.add(Reason.ERROR)
            if self.counters[Reason.ERROR] == 1:
                logger.exception("topic %r: could not handle %r", machine.name, event)

    def _perform(self, machine: Topic, effects: list[ef.Effect]) -> None:
        """Perform `effects`. Control messages to one peer share a frame, pieces follow them, and
        what is released is released last, since a goodbye comes before."""
        control: dict[Any, list[Message]] = {}
        pieces: list[tuple[Any, Piece]] = []
        released: list[Any] = []
        topic = machine.name
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
                self._perform_other(topic, effect)
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
            self.outbound.pieces_handed_over(self.peers[key])
        for key in released:
            self.peers.release(self.peers[key])

    def _perform_other(self, topic: str, effect: Any) -> None:
        match effect:
            case ef.Deliver(hops=hops):
                self.counters.add(Reason.DELIVERED)
                self._hops.setdefault(topic, Counter())[hops] += 1
            case ef.Dropped(reason=reason):
                self.counters.add(reason)
                if reason is ef.DropReason.MESSAGE_LOST:
                    self.events.emit(MessageLost(topic))
            case ef.Assembled():
                self.large.take(topic, effect)
            case _:
                self._perform_on(topic, self.peers[effect.peer], effect)

    def _perform_on(self, topic: str, peer: RemotePeer, effect: Any) -> None:
        match effect:
            case ef.Dial() if self.peers.is_writable(peer):
                self._queue.append((topic, _connected(peer)))
            case ef.Dial(for_others=for_others):
                peer.topics_dialling[topic] = None
                self.peers.request(peer, for_others)
            case ef.MeasureRtt():
                peer.topics_measuring[topic] = None
                self.pinger.request(peer, self._rtt_measured)
            case ef.NeighborUp():
                self.peers.note_use(peer)
                self.mesh.up(topic, peer)
                if self._news_only.get(topic) == NEVER:
                    self._news_only[topic] = trio.current_time() + FIRST_ANNOUNCEMENTS
            case ef.NeighborDown(reason=reason):
                self.mesh.down(topic, peer, reason)
            case ef.Ban(seconds=seconds):
                self.counters.add(Reason.BANS)
                self.peers.ban(peer, seconds)
                self.events.emit(Banned(topic, peer.id, seconds))

    def _lets_ban(self, topic: str, peer: Any) -> bool:
        with suppress(Exception):  # of the application's function
            return self.may_ban is None or bool(self.may_ban(topic, ID(peer)))
        return False


def is_in_a_view(machines: Mapping[str, Topic], peer: bytes) -> bool:
    """Whether a topic has `peer` in its active or passive view."""
    views = [machine.membership for machine in machines.values()]
    return any(peer in view.active or peer in view.passive for view in views)


def _connected(peer: RemotePeer) -> ev.Connected:
    return ev.Connected(peer.key, probed=peer.probed is True)
