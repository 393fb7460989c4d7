"""Proximity: far links are replaced by near ones, as in GoCast (E10, E18, E21).

Near links are given up for nearer ones, and random links beyond C_rand that both ends have. Each
round asks a few passive peers whether they are there (GETTOPICS), measures them and a neighbour,
and asks the nearest to replace a far neighbour.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import itemgetter

from episub_router.protocol.effects import MeasureRtt
from episub_router.protocol.hyparview.active_view import Link, pick_some
from episub_router.protocol.hyparview.overlay import Overlay, Timer
from episub_router.protocol.messages import GetTopics, LinkKind, Topics
from episub_router.protocol.types import PeerId, Time
from episub_router.util.trickle import Trickle

INTERVAL = 10.0
INTERVAL_MOST = 320.0
"""Seconds between rounds; longer while they measure no new peer and bring no nearer neighbour."""

_PROBED = 4
"""Passive peers asked in one round. Chosen: 20 ms of CPU each over py-libp2p."""

_MEASURED = 1
_MEASURED_FIRST = 3
"""Neighbours pinged in one round, and while some never were. Chosen: a ping is 5 ms of CPU."""


class Proximity:
    """Measures neighbours and passive peers, and says whom to ask in place of a far neighbour."""

    __slots__ = (
        "_ask", "_candidate", "_name", "_new", "_overlay", "_probed", "_trickle", "_victim",
    )  # fmt: skip

    def __init__(self, overlay: Overlay, name: str, ask: Callable[[PeerId, Time], bool]) -> None:
        """`ask` asks a peer for a near link; False if it has refused lately."""
        self._overlay = overlay
        self._name = name
        self._ask = ask
        self._candidate: PeerId | None = None
        self._victim: PeerId | None = None
        """The neighbour that the candidate, asked in this round, is to replace."""
        self._probed: dict[PeerId, bool] = {}
        """Peers asked in this round; True once TOPICS has named the topic, until measured."""
        self._new = False
        """Whether a passive peer was measured for the first time since the last round."""
        self._trickle = Trickle(overlay.rng, INTERVAL, INTERVAL_MOST)

    def start(self, now: Time) -> None:
        self._overlay.set_timer(Timer.PROXIMITY, self._trickle.start(now))

    def on_change(self, now: Time) -> None:
        """A nearer neighbour was found, or one is gone: look for more."""
        if self._trickle.interval > self._trickle.least:
            self.start(now)

    def on_timer(self, now: Time) -> None:
        due = self._trickle.start(now) if self._new else self._trickle.next(now)
        self._overlay.set_timer(Timer.PROXIMITY, due)
        self._new = False
        for peer in [peer for peer, answered in self._probed.items() if not answered]:
            self._overlay.passive.remove(peer)
        self._probed.clear()
        if self._overlay.params.near_links:
            self._measure()
            self._replace(now)
            if self._all_near:
                return
        for peer in self._chosen():
            self._overlay.when_connected(peer, partial(self._send_probe, peer), now)

    @property
    def _all_near(self) -> bool:
        """Whether all measured neighbours are so near, as on a LAN, that no peer could be nearer by
        the factor and the gain that count; by their shortest RTTs, as busy times make others."""
        far = self._overlay.params.rtt_advantage * self._overlay.params.rtt_min_gain
        known = [link.rtt.least for _, link in self._overlay.active.items() if link.rtt is not None]
        return bool(known) and max(known) <= far

    def _measure(self) -> None:
        overlay = self._overlay
        unmeasured = [peer for peer, link in overlay.active.items() if link.rtt is None]
        sampled = pick_some(overlay.rng, unmeasured, _MEASURED_FIRST)
        for peer in sampled or pick_some(overlay.rng, list(overlay.active), _MEASURED):
            overlay.emit(MeasureRtt(peer))

    def _replace(self, now: Time) -> None:
        """Ask the nearest passive peer for a link if it is near enough (E18)."""
        overlay = self._overlay
        self._candidate = None
        if len(overlay.active) < overlay.params.active_size:
            return
        measured = [(rtt.mean, peer) for peer, rtt in overlay.passive.measured()]
        for rtt, peer in sorted(measured, key=itemgetter(0)):
            victim = farther_neighbor(overlay, rtt)
            if victim is None:
                return
            if self._ask(peer, now):
                self._candidate, self._victim = peer, victim
                return

    def on_outcome(self, peer: PeerId, accepted: bool, now: Time) -> None:
        """The answer to the request: drop the neighbour that it replaces."""
        overlay = self._overlay
        victim = self._victim if peer == self._candidate else None
        too_many = len(overlay.active) > overlay.params.active_size
        replaces = accepted and too_many and victim in overlay.active
        if replaces and victim not in overlay.kept_links():
            overlay.evict(victim)
            self.on_change(now)

    def _chosen(self) -> list[PeerId]:
        """Neighbours of near neighbours, which are likely near, then peers never measured, then
        any. A near neighbour whose list isn't known is asked for it."""
        overlay = self._overlay
        named_by: dict[PeerId, PeerId] = {}
        unlisted: list[tuple[PeerId, Link]] = []
        for neighbor, link in overlay.active.items():
            if link.kind is LinkKind.NEAR:
                named_by.update(dict.fromkeys(link.peers, neighbor))
                if not link.peers:
                    unlisted.append((neighbor, link))
        for neighbor, link in unlisted[:1]:
            overlay.query(neighbor, link, numbers_only=False)
        named_by.pop(overlay.me, None)
        new = [p for p in named_by if p not in overlay.active and overlay.passive.rtt(p) is None]
        chosen = pick_some(overlay.rng, new, (_PROBED + 1) // 2)
        for peer in chosen:
            overlay.remember(peer, named_by[peer])
        others = [peer for peer in overlay.passive if peer not in chosen]
        unmeasured = [peer for peer in others if overlay.passive.rtt(peer) is None]
        return chosen + pick_some(overlay.rng, unmeasured or others, _PROBED - len(chosen))

    def _send_probe(self, peer: PeerId, up: bool, now: Time) -> None:
        if up and peer not in self._probed:
            self._probed[peer] = False
            self._overlay.send(peer, GetTopics())

    def on_topics(self, sender: PeerId, message: Topics) -> None:
        """TOPICS: measure a peer that is still in the topic, forget one that isn't."""
        if self._name not in message.topics:
            self._overlay.passive.remove(sender)
            self._overlay.release(sender)
        elif sender in self._probed:
            self._probed[sender] = True
            self._overlay.emit(MeasureRtt(sender))

    def on_rtt(self, peer: PeerId, rtt: float | None) -> None:
        if self._probed.pop(peer, False):
            self._new = self._new or (rtt is not None and self._overlay.passive.rtt(peer) is None)
            self._overlay.release(peer)

    def clear(self) -> None:
        self._candidate = self._victim = None
        self._probed.clear()
        self._new = False


def farther_neighbor(overlay: Overlay, rtt: float) -> PeerId | None:
    """The farthest neighbour that a peer at `rtt` seconds may replace, if any (E10, E18): farther
    by the factor alpha and the least gain, with enough links of its own, and not one to keep."""
    params = overlay.params
    kept = overlay.kept_links()
    farthest, most = None, 0.0
    for peer, link in overlay.active.items():
        distance = link.distance
        least = params.random_links + (link.kind is LinkKind.RANDOM)
        if (
            distance > max(most, params.rtt_advantage * rtt)
            and distance - rtt >= params.rtt_min_gain
            and link.random_links >= least
            and link.links >= params.active_size
            and peer not in kept
            and (link.kind is LinkKind.NEAR or overlay.has_spare_random_link)
        ):
            farthest, most = peer, distance
    return farthest
