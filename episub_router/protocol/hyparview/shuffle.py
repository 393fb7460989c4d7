"""Shuffling passive views along random walks (E19, E20)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from episub_router.protocol.effects import DropReason
from episub_router.protocol.hyparview.state import OverlayState
from episub_router.protocol.messages import Shuffle, ShuffleReply
from episub_router.protocol.types import NEVER, PeerId, Time


class ShuffleProcedure:
    """Starts a shuffle now and then, passes others' on, and answers those that end here."""

    __slots__ = ("_offered", "_overlay", "_period_ends", "_saw", "_ttl", "deadline")

    def __init__(self, overlay: OverlayState, saw: Callable[[Iterable[PeerId]], None]) -> None:
        """`saw` is told of the ids in each shuffle that passes."""
        self._overlay = overlay
        self._saw = saw
        self._offered: tuple[PeerId, ...] | None = None
        """What our shuffle under way offered; None when no reply is awaited."""
        self._ttl = 0
        self._period_ends = NEVER
        self.deadline = NEVER

    def start(self, now: Time) -> None:
        # Anywhere in the first period, so that nodes that started together don't shuffle together.
        interval = self._overlay.params.shuffle_interval
        self.deadline = self._period_ends = now + self._overlay.rng.random() * interval

    def fire(self, now: Time) -> None:
        """A new shuffle, or the last one again with a lower TTL: a walk's end that can't reach
        us doesn't answer, and at TTL zero the neighbour itself does (E20)."""
        overlay = self._overlay
        params = overlay.params
        if now >= self._period_ends:
            self._ttl = params.shuffle_ttl
            self._period_ends = now + overlay.jittered(params.shuffle_interval)
        else:
            self._ttl //= 2
        self._offer(now)

    def _offer(self, now: Time) -> None:
        overlay = self._overlay
        params = overlay.params
        self.deadline = self._period_ends
        walker = overlay.active.pick(overlay.rng)
        if walker is None:
            return
        offered = overlay.active.sample(overlay.rng, params.shuffle_active, walker)
        offered += overlay.passive.sample(overlay.rng, params.shuffle_passive)
        self._offered = tuple(offered)
        overlay.send(walker, Shuffle(overlay.me, self._offered, self._ttl))
        if self._ttl > 0:
            self.deadline = min(self.deadline, now + overlay.patience(params.shuffle_timeout))

    def on_shuffle(self, sender: PeerId, message: Shuffle, now: Time) -> None:
        """SHUFFLE: walk on, or answer the origin if it can be reached."""
        overlay = self._overlay
        params = overlay.params
        if message.ttl < 0:
            overlay.drop(sender, DropReason.TTL_INVALID)
            return
        if message.peer == overlay.me:
            overlay.drop(sender, DropReason.ABOUT_SELF)
            return
        ttl = min(message.ttl, params.shuffle_ttl)
        peers = message.peers[: params.shuffle_active + params.shuffle_passive]
        if params.dynamic_sizing:
            self._saw(peers)
        if ttl > 0 and len(overlay.active) > 1:
            walker = overlay.active.pick(overlay.rng, sender, message.peer)
            if walker is not None:
                overlay.send(walker, Shuffle(message.peer, peers, ttl - 1))
                return
        answer = partial(self._answer, message.peer, peers)
        overlay.when_connected(message.peer, answer, now, for_others=True)

    def _answer(self, origin: PeerId, offered: tuple[PeerId, ...], up: bool, now: Time) -> None:
        overlay = self._overlay
        if not up:
            overlay.drop(origin, DropReason.UNREACHABLE)
            return
        given = tuple(overlay.passive.sample(overlay.rng, len(offered) + 1, origin))
        overlay.send(origin, ShuffleReply(given))
        self._exchange(origin, (origin, *offered), given)
        overlay.release(origin)

    def on_reply(self, sender: PeerId, message: ShuffleReply) -> None:
        """SHUFFLEREPLY: take in no more than was offered, in its place."""
        if self._offered is None:
            self._overlay.drop(sender, DropReason.UNSOLICITED)
            return
        offered, self._offered = self._offered, None
        self.deadline = self._period_ends
        self._exchange(sender, message.peers[: len(offered) + 1], offered)

    def _exchange(
        self, teller: PeerId, incoming: tuple[PeerId, ...], given: tuple[PeerId, ...]
    ) -> None:
        overlay = self._overlay
        news = [peer for peer in incoming if peer != overlay.me and peer not in overlay.active]
        if not overlay.passive.exchange(news, given, overlay.rng, teller):
            overlay.drop(teller, DropReason.SHARE_FULL)

    def stop(self) -> None:
        self._offered = None
        self._period_ends = self.deadline = NEVER
