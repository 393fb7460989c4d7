"""Drives the topics' machines: events in, effects out, timers.

One event is handled at a time. What an effect causes at once (an answer to a dial that needs
no dialling, a payload for which there was no room) is queued behind it, so that a machine is
never entered while it is working.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Container, Mapping
from functools import partial
from random import Random
from typing import Any, Protocol

import trio

from episub_router.net.counters import Counters, Reason
from episub_router.net.peer import RemotePeer
from episub_router.net.peer_table import PeerListener, PeerTable
from episub_router.protocol import effects as ef
from episub_router.protocol import events as ev
from episub_router.protocol.messages import Gossip, Message
from episub_router.protocol.params import EpisubParams
from episub_router.protocol.piece_messages import Piece
from episub_router.protocol.topic import Topic
from episub_router.protocol.types import NEVER

logger = logging.getLogger(__name__)

_MESSAGES_PER_FRAME = 32

_AT_REST = 30.0
"""Seconds after the last event from outside at which timers need not be exact any more; ours."""

_SPACING = 5.0
"""Seconds between two looks at timers then, at least. Ours: half of most periods of upkeep, several
of which one wake-up serves."""

MAX_LEFT_TOPICS = 8
"""Topics that were left and may be joined again, whose seen ids are kept; ours."""


class Actions(Protocol):
    """What the driver has done for it. A method may feed the driver, but not wait for it."""

    def send(self, peer: RemotePeer, topic: str, messages: tuple[Message, ...]) -> None:
        """Send one frame."""

    def dial(self, peer: RemotePeer, for_others: bool = False) -> None:
        """Make `peer` writable; `PeerTable` notifies of the outcome."""

    def release(self, peer: RemotePeer) -> None:
        """A topic needs `peer` no longer."""

    def measure(self, peer: RemotePeer) -> None:
        """Measure the RTT; the answer is `Driver.rtt_measured`."""

    def group_of(self, peer: Any) -> str | None:
        """What peers of one owner are likely to share with `peer`, if that is known."""

    def neighbor_up(self, topic: str, peer: RemotePeer) -> None:
        """`peer` entered the active view of `topic`."""

    def neighbor_down(self, topic: str, peer: RemotePeer) -> None:
        """`peer` left it."""

    def assembled(self, topic: str, whole: ef.Assembled) -> None:
        """All pieces of a large message are here: validate it."""

    def may_ban(self, topic: str, peer: Any) -> bool:
        """Whether the application lets `topic` ban `peer`."""

    def banned(self, topic: str, peer: RemotePeer, seconds: float) -> None:
        """`topic` has banned `peer`, whose link has ended."""

    def dropped(self, topic: str, reason: ef.DropReason) -> None:
        """The machine of `topic` dropped or lost something."""


class Observer(Protocol):
    """Sees what the driver does. May not change anything, nor raise."""

    def stepped(self, machine: Topic, effects: list[ef.Effect]) -> None:
        """`machine` took a step; its effects are still to be carried out."""

    def measured(self, peer: bytes, rtt: float | None) -> None:
        """A measurement that was asked for came to an end."""


class Driver(PeerListener):
    """The machines of all topics that this node is in, and of a few that it has left."""

    def __init__(
        self,
        me: bytes,
        params: EpisubParams,
        peers: PeerTable,
        rng: Random,
        counters: Counters,
        actions: Actions,
        protected_topics: Container[str] = (),
    ) -> None:
        self._me = me
        self._params = params
        self._protected_topics = protected_topics
        self._peers = peers
        self._rng = rng
        self._counters = counters
        self._actions = actions
        self.observer: Observer | None = None
        self._topics: dict[str, Topic] = {}
        self._left: dict[str, float] = {}
        """Topics left, the oldest first, and when to forget them. Until then the ids that were
        seen are kept, so that a node that joins again delivers nothing twice."""
        self._hops: dict[str, dict[int, int]] = {}
        self._events: deque[tuple[str, ev.Event | None]] = deque()
        """What is to be handled, by topic; None is the timer."""
        self._standings: dict[bytes, float] = {}
        """Those that the application has set."""
        self._busy = False
        self._fed_at = -NEVER
        """When something other than a timer last happened."""
        self._stopped = False
        self._asleep_until = NEVER
        self._wake = trio.Event()
        self._perform: dict[type, Callable[[str, Any], None]] = {
            ef.Dial: self._on_dial,
            ef.MeasureRtt: self._on_measure,
            ef.Deliver: self._on_deliver,
            ef.NeighborUp: lambda topic, e: actions.neighbor_up(topic, peers[e.peer]),
            ef.NeighborDown: lambda topic, e: actions.neighbor_down(topic, peers[e.peer]),
            ef.Ban: lambda topic, e: actions.banned(topic, peers[e.peer], e.seconds),
            ef.Dropped: self._on_dropped,
            ef.Assembled: actions.assembled,
        }
        peers.listen(self)

    def joined(self, topic: str) -> Topic | None:
        """The machine of a topic that this node is in."""
        return None if topic in self._left else self._topics.get(topic)

    def more_pieces(self, topic: str, piece: Piece, peer: bytes) -> int:
        """How many pieces of the same message `peer` will be sent that weren't yet."""
        pieces = self._topics[topic].pieces
        return 0 if pieces is None else pieces.more(piece.id, peer)

    def is_in_a_view(self, peer: bytes) -> bool:
        """Whether a topic has `peer` in its active or passive view."""
        views = [topic.membership for topic in self._topics.values()]
        return any(peer in view.active or peer in view.passive for view in views)

    def hops(self, topic: str) -> Mapping[int, int]:
        """How many messages of `topic` were delivered after how many hops."""
        return dict(self._hops.get(topic, {}))

    # What happened

    def join(self, topic: str, contacts: tuple[bytes, ...]) -> None:
        """The application subscribed."""
        if self._stopped:
            return
        self._left.pop(topic, None)
        if topic not in self._topics:
            rng = Random(self._rng.getrandbits(64))
            group_of = self._actions.group_of
            # Rounds of ROOT go on above those from before a restart.
            epoch = int(time.time())
            protected = topic in self._protected_topics
            params = self._params.protected() if protected else self._params
            self._topics[topic] = Topic(
                self._me, topic, params, rng, group_of, epoch,
                may_ban=partial(self._actions.may_ban, topic),
            )  # fmt: skip
            for key, standing in self._standings.items():
                self._events.append((topic, ev.StandingSet(key, standing)))
            for peer in self._peers.writable():
                self._events.append((topic, _connected(peer)))
        self.feed(topic, ev.JoinOverlay(contacts))

    def leave(self, topic: str, proof: bytes) -> None:
        """The application unsubscribed."""
        if self.joined(topic) is None:
            return
        self.feed(topic, ev.LeaveOverlay(proof))
        self._left[topic] = trio.current_time() + self._params.broadcast.seen_ttl
        self._wake.set()
        if len(self._left) > MAX_LEFT_TOPICS:
            self._forget(next(iter(self._left)))

    def set_standing(self, peer: bytes, standing: float) -> None:
        """The application's word on `peer`, in all topics."""
        self._standings[peer] = standing
        if not standing:
            del self._standings[peer]
        self._feed_all(ev.StandingSet(peer, standing))

    def stop(self) -> None:
        """Forget all machines, for good."""
        self._stopped = True
        self._topics.clear()
        self._left.clear()

    def peer_writable(self, peer: RemotePeer) -> None:
        """Frames can be sent to `peer` now."""
        peer.topics_dialling.clear()
        self._feed_all(_connected(peer))

    def peer_lost(self, peer: RemotePeer) -> None:
        """`peer` isn't writable any more, or a frame to it was lost with its connection."""
        self._feed_all(ev.PeerDown(peer.key))

    def peer_silent(self, peer: RemotePeer) -> None:
        """Nothing has come from `peer` for too long."""
        self._counters.add(Reason.PEER_SILENT)
        self._feed_all(ev.Silent(peer.key))

    def query(self, topic: str, peer: RemotePeer) -> bool:
        """Ask `peer` for its list; False if it isn't a neighbour in `topic`."""
        machine = self.joined(topic)
        if machine is None or peer.key not in machine.membership.active:
            return False
        self.feed(topic, ev.NeighborQueried(peer.key))
        return True

    def dial_failed(self, peer: RemotePeer) -> None:
        """The dial to `peer` failed."""
        waiting = list(peer.topics_dialling)
        peer.topics_dialling.clear()
        self._events.extend((topic, ev.DialFailed(peer.key)) for topic in waiting)
        self._drain()

    def rtt_measured(self, peer: RemotePeer, rtt: float | None) -> None:
        """The round trip to `peer` takes `rtt` seconds; None if it could not be measured."""
        if self.observer is not None:
            self.observer.measured(peer.key, rtt)
        waiting = list(peer.topics_measuring)
        peer.topics_measuring.clear()
        self._events.extend((topic, ev.RttMeasured(peer.key, rtt)) for topic in waiting)
        self._drain()

    def feed(self, topic: str, event: ev.Event) -> None:
        """Hand `event` to the machine of `topic`, if there is one."""
        self._events.append((topic, event))
        self._drain()

    def _feed_all(self, event: ev.Event) -> None:
        self._events.extend((topic, event) for topic in self._topics)
        self._drain()

    # Timers

    async def run(self) -> None:
        """Fire the machines' timers, until cancelled."""
        while True:
            self._asleep_until = self._next_deadline()
            now = trio.current_time()
            if now - self._fed_at >= _AT_REST:
                self._asleep_until = max(self._asleep_until, now + _SPACING)
            self._wake = trio.Event()
            with trio.move_on_at(self._asleep_until):
                await self._wake.wait()
            now = trio.current_time()
            for name, topic in self._topics.items():
                if topic.next_deadline() <= now:
                    self._events.append((name, None))
            self._drain()
            for name in [name for name, until in self._left.items() if until <= now]:
                self._forget(name)

    def _next_deadline(self) -> float:
        deadlines = [topic.next_deadline() for topic in self._topics.values()]
        return min([*deadlines, *self._left.values()], default=NEVER)

    def _forget(self, topic: str) -> None:
        del self._left[topic]
        del self._topics[topic]
        self._hops.pop(topic, None)

    # Effects

    def _drain(self) -> None:
        if self._busy:
            return
        self._busy = True
        try:
            while self._events:
                name, event = self._events.popleft()
                topic = self._topics.get(name)
                if event is not None:
                    self._fed_at = trio.current_time()
                if topic is not None:
                    self._step(topic, event)
                    if topic.next_deadline() < self._asleep_until:
                        self._wake.set()
        finally:
            self._busy = False

    def _step(self, topic: Topic, event: ev.Event | None) -> None:
        """Let a machine take one step. A bug in there must not reach Pubsub, and through it the
        host, which would stop."""
        now = trio.current_time()
        try:
            effects = topic.handle_timer(now) if event is None else topic.handle(event, now)
            if self.observer is not None:
                self.observer.stepped(topic, effects)
            self._apply(topic.name, effects)
        except Exception:
            self._counters.add(Reason.ERROR)
            if self._counters[Reason.ERROR] == 1:
                logger.exception("topic %r: could not handle %r", topic.name, event)

    def _apply(self, topic: str, effects: list[ef.Effect]) -> None:
        """Perform `effects`. Control messages to one peer share a frame, pieces follow them, and
        what is released is released last, since a goodbye comes before."""
        control: dict[bytes, list[Message]] = {}
        pieces: list[tuple[RemotePeer, Piece]] = []
        released: list[bytes] = []
        for effect in effects:
            peer: Any
            if isinstance(effect, ef.Send):
                peer = effect.peer
                if isinstance(effect.message, Gossip):
                    self._actions.send(self._peers[peer], topic, (effect.message,))
                elif isinstance(effect.message, Piece):
                    pieces.append((self._peers[peer], effect.message))
                else:
                    control.setdefault(peer, []).append(effect.message)
            elif isinstance(effect, ef.Release):
                peer = effect.peer
                released.append(peer)
            else:
                self._perform[type(effect)](topic, effect)
        for peer, messages in control.items():
            for start in range(0, len(messages), _MESSAGES_PER_FRAME):
                batch = tuple(messages[start : start + _MESSAGES_PER_FRAME])
                self._actions.send(self._peers[peer], topic, batch)
        for peer, piece in pieces:
            self._actions.send(peer, topic, (piece,))
        for peer in released:
            self._actions.release(self._peers[peer])

    def _on_dial(self, topic: str, effect: ef.Dial) -> None:
        key: Any = effect.peer
        peer = self._peers[key]
        if self._peers.is_writable(peer):
            self._events.append((topic, _connected(peer)))
        else:
            peer.topics_dialling[topic] = None
            self._actions.dial(peer, effect.for_others)

    def _on_measure(self, topic: str, effect: ef.MeasureRtt) -> None:
        key: Any = effect.peer
        peer = self._peers[key]
        peer.topics_measuring[topic] = None
        self._actions.measure(peer)

    def _on_dropped(self, topic: str, effect: ef.Dropped) -> None:
        self._counters.add(effect.reason)
        self._actions.dropped(topic, effect.reason)

    def _on_deliver(self, topic: str, effect: ef.Deliver) -> None:
        self._counters.add(Reason.DELIVERED)
        hops = self._hops.setdefault(topic, {})
        hops[effect.hops] = hops.get(effect.hops, 0) + 1


def _connected(peer: RemotePeer) -> ev.Connected:
    return ev.Connected(peer.key, probed=peer.probed is True)
