"""Shuffle: passive views are mixed along random walks (E19, E20).

The walk carries the number of peers offered; the origin sends them once it has the reply.
"""

from __future__ import annotations

from functools import partial

from episub_router.protocol.effects import DropReason
from episub_router.protocol.hyparview.overlay import Overlay, Timer
from episub_router.protocol.messages import Nodes, Shuffle, ShuffleReply
from episub_router.protocol.types import PeerId, Time
from episub_router.util.bounded import put_last

SHUFFLE_ACTIVE = 3
SHUFFLE_PASSIVE = 4
"""Neighbours and passive peers offered in one shuffle. HyParView: ka 3, kp 4."""

SHUFFLE_TTL = 6
"""Length of a shuffle's random walk. HyParView: 6."""

SHUFFLE_TIMEOUT = 5.0
"""Seconds until a shuffle counts as unanswered. Chosen: a walk of six hops, a dial, the reply."""

MAX_ANSWERED = 8
"""Origins answered whose offers are awaited. Chosen: as many walks end here as begin."""


class ShuffleProcedure:
    """Starts a shuffle in each period, passes on others', and answers those that end here."""

    __slots__ = ("_answered", "_offered", "_overlay", "_ttl")

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay
        self._offered: tuple[PeerId, ...] | None = None
        """What our shuffle in flight offered; None when no reply is awaited."""
        self._answered: dict[PeerId, tuple[int, tuple[PeerId, ...]]] = {}
        """Origins that have yet to send their offer: how many peers, and what we gave."""
        self._ttl = 0

    def on_timer(self, now: Time) -> None:
        """Shuffle with a random member; at rest with a neighbour, which needs no dial (Cyclon)."""
        rounds = self._overlay.rounds[Timer.SHUFFLE]
        self._ttl = SHUFFLE_TTL if rounds.interval == rounds.least else 0
        self._overlay.next_round(Timer.SHUFFLE, now)
        self._offer(now)

    def on_reply_timeout(self, now: Time) -> None:
        """The same again with half the TTL; at 0 the neighbour itself answers (E20)."""
        self._ttl //= 2
        self._offer(now)

    def _offer(self, now: Time) -> None:
        overlay = self._overlay
        walker = overlay.active.pick(overlay.rng)
        if walker is None:
            return
        offered = overlay.active.sample(overlay.rng, SHUFFLE_ACTIVE, walker)
        offered += overlay.passive.sample(overlay.rng, SHUFFLE_PASSIVE)
        self._offered = tuple(offered)
        overlay.send(walker, Shuffle(overlay.me, self._ttl, len(offered)))
        if self._ttl > 0:
            timeout = overlay.with_dial_time(SHUFFLE_TIMEOUT)
            overlay.set_timer(Timer.SHUFFLE_REPLY, now + timeout)

    def on_shuffle(self, sender: PeerId, message: Shuffle, now: Time) -> None:
        """SHUFFLE: pass it on, or answer its origin if that can be reached."""
        overlay = self._overlay
        if message.peer == overlay.me:
            overlay.drop(sender, DropReason.ABOUT_SELF)
            return
        ttl = min(message.ttl, SHUFFLE_TTL)
        most = SHUFFLE_ACTIVE + SHUFFLE_PASSIVE
        peers = message.peers[:most]
        # Peers that go along are the whole offer.
        offered = 0 if peers else min(message.offered, most)
        walks = ttl > 0 and len(overlay.active) > 1
        walker = overlay.active.pick(overlay.rng, sender, message.peer) if walks else None
        if walker is not None:
            overlay.send(walker, Shuffle(message.peer, ttl - 1, offered, peers))
            return
        answer = partial(self._answer, message.peer, peers, offered)
        overlay.when_connected(message.peer, answer, now, for_others=True)

    def _answer(
        self, origin: PeerId, peers: tuple[PeerId, ...], offered: int, up: bool, now: Time
    ) -> None:
        overlay = self._overlay
        if not up:
            overlay.drop(origin, DropReason.UNREACHABLE)
            return
        given = tuple(overlay.passive.sample(overlay.rng, (offered or len(peers)) + 1, origin))
        overlay.send(origin, ShuffleReply(given))
        self._exchange(origin, (origin, *peers), given)
        if not offered:
            overlay.release(origin)
            return
        oldest = put_last(self._answered, origin, (offered, given), MAX_ANSWERED)
        if oldest is not None:
            overlay.release(oldest)

    def on_nodes(self, sender: PeerId, nodes: Nodes) -> bool:
        """NODES: what an origin offers, in place of what it got. False if none was awaited."""
        answered = self._answered.pop(sender, None)
        if answered is None:
            return False
        offered, given = answered
        self._exchange(sender, nodes.peers[:offered], given)
        self._overlay.release(sender)
        return True

    def on_peer_down(self, peer: PeerId) -> None:
        self._answered.pop(peer, None)

    def on_reply(self, sender: PeerId, message: ShuffleReply) -> None:
        """SHUFFLEREPLY: take in no more entries than we offered, in their place."""
        overlay = self._overlay
        if self._offered is None:
            overlay.drop(sender, DropReason.UNSOLICITED)
            return
        offered, self._offered = self._offered, None
        overlay.cancel_timer(Timer.SHUFFLE_REPLY)
        self._exchange(sender, message.peers[: len(offered) + 1], offered)
        if offered:
            overlay.send(sender, Nodes(offered, overlay.params.join_ttl))

    def _exchange(
        self, source: PeerId, incoming: tuple[PeerId, ...], given: tuple[PeerId, ...]
    ) -> None:
        overlay = self._overlay
        new = [peer for peer in incoming if peer != overlay.me and peer not in overlay.active]
        if not overlay.passive.exchange(new, given, overlay.rng, source):
            overlay.drop(source, DropReason.SHARE_FULL)
