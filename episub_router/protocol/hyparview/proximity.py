"""Proximity: far links are replaced by near ones, as in GoCast (E10, E18, E21).

Near links are given up for nearer ones, and random links beyond C_rand that both ends have. Each
round asks a few passive peers that were never measured whether they are there (GETTOPICS),
measures them and a neighbour, and asks the nearest to replace a far neighbour.
"""

from __future__ import annotations

from functools import partial
from operator import itemgetter

from episub_router.protocol.effects import MeasureRtt
from episub_router.protocol.hyparview.neighbor import Neighbors, farther_neighbor
from episub_router.protocol.hyparview.overlay import Overlay, Timer
from episub_router.protocol.hyparview.views import Link, pick_some
from episub_router.protocol.messages import GetTopics, LinkKind, Topics
from episub_router.protocol.types import PeerId, Time

_PROBED = 4
"""Passive peers asked in one round. Chosen: 20 ms of CPU each over py-libp2p."""

_MEASURED = 1
_MEASURED_FIRST = 3
"""Neighbours pinged in one round, and while some never were. Chosen: a ping is 5 ms of CPU."""


_EAGER = 128
"""Passive peers measured for the first time that bring the shortest interval back. Chosen: four
minutes' worth, in which near links are found; shuffles bring others for ever."""


class Proximity:
    """Measures neighbours and passive peers, and says whom to ask in place of a far neighbour."""

    __slots__ = ("_found", "_neighbors", "_new", "_overlay", "_probed")

    def __init__(self, overlay: Overlay, neighbors: Neighbors) -> None:
        self._overlay = overlay
        self._neighbors = neighbors
        self._probed: dict[PeerId, bool] = {}
        """Peers asked in this round; True once TOPICS has named the topic, until measured."""
        self._found = 0
        """Passive peers that were measured for the first time."""
        self._new = False
        """Whether one of the first `_EAGER` of them was since the last round."""

    def on_timer(self, now: Time) -> None:
        overlay = self._overlay
        is_first = self._is_first
        if self._new or is_first:
            overlay.start_rounds(Timer.PROXIMITY, now)
        else:
            overlay.next_round(Timer.PROXIMITY, now)
        self._new = False
        for peer in [peer for peer, answered in self._probed.items() if not answered]:
            overlay.passive.remove(peer)
        self._probed.clear()
        if overlay.params.near_links:
            self._measure()
            self._replace(now)
            if is_first or self._all_near:
                return
        for peer in self._chosen():
            overlay.when_connected(peer, partial(self._send_probe, peer), now)

    @property
    def _is_first(self) -> bool:
        """Whether no neighbour was pinged yet: all may be near."""
        overlay = self._overlay
        tried = [link.rtt or link.failed_pings for _, link in overlay.active.items()]
        return bool(tried and overlay.params.near_links) and not any(tried)

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
            overlay.effects.append(MeasureRtt(peer))

    def _replace(self, now: Time) -> None:
        """Ask the nearest passive peer for a link if it is near enough (E18)."""
        overlay = self._overlay
        if not overlay.is_full:
            return
        rtts = [(overlay.passive.rtt(peer), peer) for peer in overlay.passive]
        measured = [(rtt.mean, peer) for rtt, peer in rtts if rtt is not None]
        for rtt, peer in sorted(measured, key=itemgetter(0)):
            if farther_neighbor(overlay, rtt) is None:
                return
            if not self._neighbors.has_refused(peer, now):
                self._neighbors.ask(peer, LinkKind.NEAR, now)
                return

    def on_accept(self, peer: PeerId, now: Time) -> None:
        """A peer that was asked has accepted: a farther neighbour goes, if there are too many."""
        overlay = self._overlay
        link = overlay.active.get(peer)
        if link is None or link.rtt is None or not overlay.is_too_large:
            return
        farther = farther_neighbor(overlay, link.rtt.mean)
        if farther is not None:
            overlay.evict(farther)
            overlay.hasten_rounds(Timer.PROXIMITY, now)

    def _chosen(self) -> list[PeerId]:
        """Peers never measured: neighbours of near neighbours, which are likely near, then any. A
        near neighbour whose list isn't known is asked for it."""
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
        others = [p for p in overlay.passive if p not in chosen and overlay.passive.rtt(p) is None]
        return chosen + pick_some(overlay.rng, others, _PROBED - len(chosen))

    def _send_probe(self, peer: PeerId, up: bool, now: Time) -> None:
        if up and peer not in self._probed:
            self._probed[peer] = False
            self._overlay.send(peer, GetTopics())

    def on_topics(self, sender: PeerId, message: Topics) -> None:
        """TOPICS: measure a peer that is still in the topic, forget one that isn't."""
        if self._overlay.name not in message.topics:
            self._overlay.passive.remove(sender)
            self._overlay.release(sender)
        elif sender in self._probed:
            self._probed[sender] = True
            self._overlay.effects.append(MeasureRtt(sender))

    def on_rtt(self, peer: PeerId, rtt: float | None) -> None:
        if self._probed.pop(peer, False):
            if rtt is not None and self._overlay.passive.rtt(peer) is None:
                self._found += 1
                self._new = self._new or self._found <= _EAGER
            self._overlay.release(peer)
