"""Shuffle: passive views are mixed along random walks (E19, E20).

Only the node where a walk ends needs the peers offered. So the walk carries their number, and the
origin sends them once it has the reply.
"""

from __future__ import annotations

from functools import partial

from episub_router.protocol.effects import DropReason
from episub_router.protocol.hyparview.procedure import Procedure
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.messages import Nodes, Shuffle, ShuffleReply
from episub_router.protocol.types import NEVER, PeerId, Time

SHUFFLE_TIMEOUT = 5.0
"""Seconds until a shuffle counts as unanswered. Ours: a walk of six hops, a dial, the reply."""

_PATIENCE = 2
"""Shuffles in a row that may bring nobody new by chance. Ours."""

_MOST_DOUBLINGS = 3
"""How often the rest between shuffles doubles, once for each that brings nobody new after those.
Ours: three hours at most; the members of a small overlay know one another."""

MAX_ANSWERED = 8
"""Origins answered whose offers are awaited; the oldest is let go first. Ours: that takes a round
trip, and as many walks end here as begin."""


class ShuffleProcedure(Procedure):
    """Starts a shuffle in each period, passes on others', and answers those that end here."""

    __slots__ = ("_answered", "_began", "_fruitless", "_offered", "_period_ends", "_ttl")

    def __init__(self, state: OverlayState) -> None:
        super().__init__(state)
        self._offered: tuple[PeerId, ...] | None = None
        """What our shuffle in flight offered; None when no reply is awaited."""
        self._answered: dict[PeerId, tuple[int, tuple[PeerId, ...]]] = {}
        """Origins that have yet to send what they offer: how many peers, and what we gave."""
        self._ttl = 0
        self._began = -NEVER
        """When we last began a shuffle."""
        self._fruitless = 0
        """Shuffles in a row that have brought nobody new."""
        self._period_ends = NEVER

    def start(self, now: Time) -> None:
        # Anywhere in the first period, so that nodes that started together don't shuffle together.
        interval = self._state.params.shuffle_interval
        self.deadline = self._period_ends = now + self._state.rng.random() * interval

    def fire(self, now: Time) -> None:
        """A new shuffle, or the last one again with half its TTL: the end of a walk doesn't answer
        if it can't dial us, and at TTL 0 the neighbour itself does (E20)."""
        state = self._state
        params = state.params
        if now >= self._period_ends:
            self._period_ends = now + state.jittered(params.shuffle_interval)
            doublings = min(max(0, self._fruitless - _PATIENCE), _MOST_DOUBLINGS)
            if state.may_rest(self._began, params.shuffle_interval * 2**doublings, now):
                self.deadline = self._period_ends
                return
            self._began = now
            self._ttl = params.shuffle_ttl
        else:
            self._ttl //= 2
        self._offer(now)

    def _offer(self, now: Time) -> None:
        state = self._state
        params = state.params
        self.deadline = self._period_ends
        walker = state.active.pick(state.rng)
        if walker is None:
            return
        offered = state.active.sample(state.rng, params.shuffle_active, walker)
        offered += state.passive.sample(state.rng, params.shuffle_passive)
        self._offered = tuple(offered)
        state.send(walker, Shuffle(state.me, self._ttl, len(offered)))
        if self._ttl > 0:
            self.deadline = min(self.deadline, now + state.with_dial_time(SHUFFLE_TIMEOUT))

    def on_shuffle(self, sender: PeerId, message: Shuffle, now: Time) -> None:
        """SHUFFLE: pass it on, or answer its origin if that can be reached."""
        state = self._state
        params = state.params
        if message.ttl < 0:
            state.drop(sender, DropReason.TTL_INVALID)
            return
        if message.peer == state.me:
            state.drop(sender, DropReason.ABOUT_SELF)
            return
        ttl = min(message.ttl, params.shuffle_ttl)
        most = params.shuffle_active + params.shuffle_passive
        peers = message.peers[:most]
        # Peers that go along are all that there is, whatever else is said.
        offered = 0 if peers else min(message.offered, most)
        if ttl > 0 and len(state.active) > 1:
            walker = state.active.pick(state.rng, sender, message.peer)
            if walker is not None:
                state.send(walker, Shuffle(message.peer, ttl - 1, offered, peers))
                return
        answer = partial(self._answer, message.peer, peers, offered)
        state.when_connected(message.peer, answer, now, for_others=True)

    def _answer(
        self, origin: PeerId, peers: tuple[PeerId, ...], offered: int, up: bool, now: Time
    ) -> None:
        state = self._state
        if not up:
            state.drop(origin, DropReason.UNREACHABLE)
            return
        given = tuple(state.passive.sample(state.rng, (offered or len(peers)) + 1, origin))
        state.send(origin, ShuffleReply(given))
        self._exchange(origin, (origin, *peers), given)
        if not offered:
            state.release(origin)
            return
        self._answered.pop(origin, None)
        self._answered[origin] = offered, given
        if len(self._answered) > MAX_ANSWERED:
            oldest = next(iter(self._answered))
            del self._answered[oldest]
            state.release(oldest)

    def on_nodes(self, sender: PeerId, nodes: Nodes) -> bool:
        """NODES: what an origin offers, in place of what it got. False if nothing was awaited from
        `sender`."""
        answered = self._answered.pop(sender, None)
        if answered is None:
            return False
        offered, given = answered
        self._exchange(sender, nodes.peers[:offered], given)
        self._state.release(sender)
        return True

    def on_peer_down(self, peer: PeerId) -> None:
        """What it offered doesn't come any more."""
        self._answered.pop(peer, None)

    def on_reply(self, sender: PeerId, message: ShuffleReply) -> None:
        """SHUFFLEREPLY: take in no more entries than we offered, in their place."""
        if self._offered is None:
            self._state.drop(sender, DropReason.UNSOLICITED)
            return
        offered, self._offered = self._offered, None
        self.deadline = self._period_ends
        given = message.peers[: len(offered) + 1]
        self._fruitless = 0 if any(map(self._is_new, given)) else self._fruitless + 1
        self._exchange(sender, given, offered)
        if offered:
            self._state.send(sender, Nodes(offered, self._state.params.join_ttl))

    def _is_new(self, peer: PeerId) -> bool:
        state = self._state
        return peer != state.me and peer not in state.active and peer not in state.passive

    def _exchange(
        self, source: PeerId, incoming: tuple[PeerId, ...], given: tuple[PeerId, ...]
    ) -> None:
        state = self._state
        new = [peer for peer in incoming if peer != state.me and peer not in state.active]
        if not state.passive.exchange(new, given, state.rng, source):
            state.drop(source, DropReason.SHARE_FULL)

    def stop(self) -> None:
        super().stop()
        self._offered = None
        self._answered.clear()
        self._period_ends = NEVER
