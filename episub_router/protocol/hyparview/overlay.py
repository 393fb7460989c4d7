"""What the procedures of the overlay share: views, connections, bans, timers, outgoing effects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from enum import IntEnum
from random import Random
from typing import TypeAlias

from episub_router.protocol import effects as ef
from episub_router.protocol.effects import DownReason, DropReason, Outbox
from episub_router.protocol.hyparview.places import Places
from episub_router.protocol.hyparview.views import ActiveView, Link, PassiveView
from episub_router.protocol.messages import Disconnect, LinkKind, Neighbor, NeighborRole
from episub_router.protocol.params import MembershipParams
from episub_router.protocol.rtt import Rtt, updated
from episub_router.protocol.types import NEVER, GroupOf, PeerId, Time
from episub_router.util.bounded import put_last
from episub_router.util.timers import TimerMap
from episub_router.util.trickle import Trickle

Action: TypeAlias = Callable[[bool, Time], None]
"""What to do once a dial has ended, with whether there is a connection, and `now`."""

SHARE = 0.25
"""Share of a full view for peers of one address prefix, and of a passive view for what one named.
Chosen: a sender that lies needs four prefixes."""

MAX_DIALS = 64
"""Dials in progress at once. Chosen: what grows a view and fills a probe, several times."""

MAX_DIALS_FOR_OTHERS = 32
"""Of those, dials that only other nodes' messages asked for. Chosen: half is kept for our own."""

MAX_IN_NEED = 2
"""Links beyond A for peers that lack some. Chosen: joins need room where views are full."""

MAX_BANNED = 512
"""Peers banned at once; the oldest ban ends early. Chosen: many active views."""

_ACTIONS_PER_DIAL = 8


class Timer(IntEnum):
    """What a timer is for; those of `REQUEST` and `ANSWER` are for one peer each."""

    JOIN = 0
    REQUEST = 1
    SHUFFLE_REPLY = 2
    ANSWER = 3
    GROW = 4
    SHUFFLE = 5
    LINK_CHECK = 6
    PROXIMITY = 7
    SEARCH = 8
    STABILIZE = 9
    RECONNECT = 10


ROUNDS: dict[Timer, tuple[float, float]] = {
    # Measured: of many that ask at a time the nearest is first. A view that stays incomplete, as
    # all others are full, costs hardly a dial.
    Timer.GROW: (2.5, 2560.0),
    # The passive view is mixed within hours. In units of `shuffle_interval`.
    Timer.SHUFFLE: (1.0, 32.0),
    # What has stopped is noticed within 40 s.
    Timer.LINK_CHECK: (10.0, 20.0),
    # Near links are found in the first minutes.
    Timer.PROXIMITY: (10.0, 640.0),
    # Places on rings are found in the first half minute.
    Timer.SEARCH: (5.0, 2560.0),
    # A healed partition merges within a minute.
    Timer.RECONNECT: (15.0, 15.0),
    # A join storm is over by then.
    Timer.STABILIZE: (10.0, 160.0),
}
"""Seconds between rounds of upkeep (Trickle), at first and at most."""


class _DialInProgress:
    """What waits for a dial, and since when. `for_others`: only others' messages asked for it."""

    __slots__ = ("actions", "began", "for_others")

    def __init__(self, began: Time, for_others: bool) -> None:
        self.actions: list[Action] = []
        self.began = began
        self.for_others = for_others


class Overlay(Outbox):
    """Views, connections, timers and outgoing effects of one node in one topic."""

    __slots__ = (
        "_connected", "_dial_time", "_dials", "active", "banned_until", "group_of",
        "me", "name", "params", "passive", "places", "rng", "rounds", "timers",
    )  # fmt: skip

    def __init__(
        self, me: PeerId, name: str, params: MembershipParams, rng: Random, group_of: GroupOf
    ) -> None:
        super().__init__()
        self.me = me
        self.name = name
        self.params = params
        self.rng = rng
        self.group_of = group_of
        self.active = ActiveView()
        self.passive = PassiveView(params.passive_size, SHARE, group_of)
        self.places = Places(name, params.ring_links // 2, group_of)
        self.timers: TimerMap[tuple[Timer, PeerId]] = TimerMap()
        self.rounds: dict[Timer, Trickle] = {}
        for timer, (least, most) in ROUNDS.items():
            unit = params.shuffle_interval if timer is Timer.SHUFFLE else 1.0
            self.rounds[timer] = Trickle(rng, least * unit, most * unit)
        self.banned_until: dict[PeerId, Time] = {}
        self._connected: dict[PeerId, bool] = {}
        """Whether the connection is probed (`Connected`)."""
        self._dials: dict[PeerId, _DialInProgress] = {}
        self._dial_time: Rtt | None = None

    # Timers

    def set_timer(self, timer: Timer, at: Time, peer: PeerId = None) -> None:
        self.timers.set((timer, peer), at)

    def cancel_timer(self, timer: Timer, peer: PeerId = None) -> None:
        self.timers.cancel((timer, peer))

    def is_set(self, timer: Timer, peer: PeerId = None) -> bool:
        return (timer, peer) in self.timers

    def start_rounds(self, timer: Timer, now: Time) -> None:
        """Have rounds of upkeep from now on, at the shortest interval."""
        self.set_timer(timer, self.rounds[timer].start(now))

    def next_round(self, timer: Timer, now: Time) -> None:
        """A round is done: the next comes after a longer interval."""
        self.set_timer(timer, self.rounds[timer].next(now))

    def hasten_rounds(self, timer: Timer, now: Time) -> None:
        """Something has changed: begin anew, unless a first round is due."""
        if self.rounds[timer].interval > self.rounds[timer].least or not self.is_set(timer):
            self.start_rounds(timer, now)

    # Links

    def send_neighbor(
        self, peer: PeerId, role: NeighborRole, kind: LinkKind, *peers: PeerId,
        numbers_only: bool = False,
    ) -> None:  # fmt: skip
        """Send `peer` a NEIGHBOR with our own numbers of links."""
        random_links = self.active.count(LinkKind.RANDOM)
        links = len(self.active)
        self.send(peer, Neighbor(role, links, kind, peers, random_links, numbers_only))

    def accept(self, peer: PeerId, kind: LinkKind, now: Time, said: Neighbor | None) -> None:
        """Give `peer`, which asked for it, a link."""
        self.add_link(peer, kind, now, said)
        self.send_neighbor(peer, NeighborRole.ACCEPT, kind)

    def reject(self, peer: PeerId, reason: DropReason) -> None:
        """Refuse `peer` a link for `reason`."""
        self.drop(peer, reason)
        self.send(peer, Disconnect())
        self.release(peer)

    def query(self, peer: PeerId, link: Link, *, numbers_only: bool = True) -> None:
        """Ask a neighbour for a sign of life, and for its list unless `numbers_only` (E11)."""
        self.send_neighbor(peer, NeighborRole.QUERY, link.kind, numbers_only=numbers_only)

    @property
    def is_in_need(self) -> bool:
        """Whether there are fewer than C_rand links, of whichever kind."""
        return len(self.active) < self.params.random_links

    @property
    def is_full(self) -> bool:
        return len(self.active) >= self.params.active_size

    @property
    def is_too_large(self) -> bool:
        return len(self.active) > self.params.active_size

    def add_link(self, peer: PeerId, kind: LinkKind, now: Time, said: Neighbor | None) -> None:
        """Make `peer`, which `said` this, a neighbour; the caller has checked the bound."""
        link = Link(kind, now)
        link.group = self.group_of(peer)
        link.rtt = self.passive.rtt(peer)
        self.passive.remove(peer)
        if said is not None:
            link.update(said, now)
        self.active.add(peer, link)
        self.effects.append(ef.NeighborUp(peer, kind))

    def drop_link(self, peer: PeerId, reason: DownReason, *, notify: bool, remember: bool) -> None:
        """Take `peer` out of the active view; `notify` it, and `remember` it as passive."""
        link = self.active.remove(peer)
        if link is None:
            return
        self.cancel_timer(Timer.ANSWER, peer)
        failed = reason is DownReason.FAILED
        self.effects.append(ef.NeighborDown(peer, reason, link.last_activity if failed else NEVER))
        if notify:
            self.send(peer, Disconnect())
        if remember:
            self.passive.add(peer, self.rng, link.rtt)
        self.release(peer)

    def evict(self, peer: PeerId) -> None:
        """Give up the link to `peer` for a better one."""
        self.drop_link(peer, DownReason.EVICTED, notify=True, remember=True)

    def ring_neighbors(self, *others: PeerId) -> dict[PeerId, None]:
        """Those of the neighbours, and of `others`, that are next to this node on a ring."""
        return self.places.next_to(self.me, [*self.active, *others])

    def is_next_on_a_ring(self, peer: PeerId) -> bool:
        """Whether `peer`, no neighbour yet, is nearer on a ring than those that are."""
        return peer in self.ring_neighbors(peer)

    def kept_links(self) -> dict[PeerId, None]:
        """Links that no claim or nearness of another peer ends: those of rings, and the oldest
        other random ones up to C_rand. Without rings, half of those, where there are more, so that
        triangles can end. While a group has more than its share, all links of others."""
        kept = self.ring_neighbors()
        random = [peer for peer, link in self.active.items() if link.kind is LinkKind.RANDOM]
        others = [peer for peer in random if peer not in kept]
        missing = self.params.random_links - (len(random) - len(others))
        if not self.params.ring_links and len(others) > missing:
            missing = (missing + 1) // 2
        kept.update(dict.fromkeys(others[: max(0, missing)]))
        counts = Counter([link.group for _, link in self.active.items() if link.group is not None])
        share = max(1, round(SHARE * self.params.active_size))
        if any(count > share for count in counts.values()):
            links = self.active.items()
            kept.update({peer: None for peer, link in links if counts[link.group] <= share})
        return kept

    def make_room(self, peer: PeerId, *, in_need: bool) -> bool:
        """Whether `peer`, which asks for a link, gets one: up to A, a little beyond where it is
        `in_need`, and where it is next on a ring. At the hard bound, the newest link that is on no
        ring gives way."""
        active, params = self.active, self.params
        if len(active) < params.active_size + (MAX_IN_NEED if in_need else 0):
            return True
        if not self.is_next_on_a_ring(peer):
            return False
        if len(active) >= params.active_bound:
            kept = self.ring_neighbors(peer)
            others = [other for other in active if other not in kept]
            if not others:
                return False
            self.evict(others[-1])
        return True

    # Bans

    def ban(self, peer: PeerId, until: Time) -> None:
        """End the link to `peer`, which gets none `until` then."""
        put_last(self.banned_until, peer, until, MAX_BANNED)
        self.passive.remove(peer)
        self.drop_link(peer, DownReason.BANNED, notify=True, remember=False)

    def is_banned(self, peer: PeerId, now: Time) -> bool:
        if peer in self.banned_until and self.banned_until[peer] <= now:
            del self.banned_until[peer]
        return peer in self.banned_until

    def remember(self, peer: PeerId, source: PeerId | None = None) -> None:
        """Put `peer`, which `source` named, into the passive view, if it belongs there."""
        if peer == self.me or peer in self.active or peer in self.banned_until:
            return
        if not self.passive.add(peer, self.rng, None, source):
            self.drop(source, DropReason.SHARE_FULL)

    # Connections

    def is_connected(self, peer: PeerId) -> bool:
        return peer in self._connected

    def is_probed(self, peer: PeerId) -> bool:
        """Whether a connection to `peer` ends by itself soon after its host is gone."""
        return self._connected.get(peer, False)

    def release(self, peer: PeerId) -> None:
        """Let the driver close the connection to `peer`, unless it is a neighbour's."""
        if peer not in self.active and peer in self._connected:
            self.effects.append(ef.Release(peer))

    def when_connected(
        self, peer: PeerId, action: Action, now: Time, *, for_others: bool = False
    ) -> None:
        """Run `action` now if `peer` is connected, else after a dial; a full table of dials counts
        as a failed one. `for_others`: another node's message asked for it; part of the table is
        kept from those."""
        banned = self.is_banned(peer, now)
        if banned or peer in self._connected:
            action(not banned, now)
            return
        dial = self._dials.get(peer)
        if dial is None:
            others = sum([other.for_others for other in self._dials.values()]) if for_others else 0
            if others >= MAX_DIALS_FOR_OTHERS:
                self.drop(peer, DropReason.DIALS_FULL)
            if others >= MAX_DIALS_FOR_OTHERS or len(self._dials) >= MAX_DIALS:
                action(False, now)
                return
            dial = self._dials[peer] = _DialInProgress(now, for_others)
            self.effects.append(ef.Dial(peer, for_others))
        dial.for_others = dial.for_others and for_others
        if len(dial.actions) >= _ACTIONS_PER_DIAL:
            action(False, now)
        else:
            dial.actions.append(action)

    def on_connected(self, peer: PeerId, now: Time, probed: bool | None = None) -> None:
        """`peer` is connected, in a way that is `probed` or not: do what waited for its dial."""
        self._connected[peer] = self.is_probed(peer) if probed is None else probed
        dial = self._dials.pop(peer, None)
        if dial is not None:
            self._dial_time = updated(self._dial_time, now - dial.began)
            for action in dial.actions:
                action(True, now)

    def on_disconnected(self, peer: PeerId, now: Time) -> None:
        """The connection to `peer` is gone, or could not be made."""
        self._connected.pop(peer, None)
        dial = self._dials.pop(peer, None)
        for action in dial.actions if dial is not None else ():
            action(False, now)

    def with_dial_time(self, timeout: float) -> float:
        """`timeout` plus the time that the other side may need for a dial of its own."""
        dial = self._dial_time
        return timeout if dial is None else timeout + dial.mean + 4 * dial.spread

    def clear(self) -> None:
        """Forget the passive view, timers, and all dials in progress; connections stay known."""
        self.passive.clear()
        self.timers.clear()
        self._dials.clear()
