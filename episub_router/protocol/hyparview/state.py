"""What HyParView's procedures share: views, connections, dials and outgoing effects."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TypeAlias

from episub_router.protocol.effects import (
    Dial,
    DownReason,
    Dropped,
    DropReason,
    Effect,
    NeighborDown,
    NeighborUp,
    Release,
    Send,
)
from episub_router.protocol.hyparview.joining.open_requests import OpenRequests
from episub_router.protocol.hyparview.views.active import (
    MAX_ON_WISH,
    NEED_BELIEVED,
    ActiveView,
    Link,
)
from episub_router.protocol.hyparview.views.askers import Askers
from episub_router.protocol.hyparview.views.passive import PassiveView
from episub_router.protocol.hyparview.views.ring_places import Places
from episub_router.protocol.messages import (
    Disconnect,
    Join,
    LinkKind,
    Message,
    Neighbor,
    NeighborRole,
)
from episub_router.protocol.params import MembershipParams
from episub_router.protocol.rtt import Rtt, updated
from episub_router.protocol.tables import take
from episub_router.protocol.types import NEVER, GroupOf, PeerId, Time, ungrouped

Action: TypeAlias = Callable[[bool, Time], None]
"""What to do once a dial has ended: called with whether there is a connection, and `now`."""

PASSIVE_SHARE = 0.25
"""Share of a full passive view for the entries from one peer or address prefix, and for the peers
of one prefix. Ours: a sender that lies needs four prefixes."""

RTT_FAILURES = 3
"""Pings failed in a row after which a neighbour's RTT is infinite, and a passive peer is removed.
Ours: one failure may be chance, or the peer busy."""

MAX_DIALS = 64
"""Dials in progress at once. Ours."""

MAX_DIALS_FOR_OTHERS = 32
"""Of those, dials that only other nodes' messages asked for. Ours: half is kept for our own."""

MAX_BANNED = 512
"""Peers that are banned at once; the oldest ban ends early. Ours: many active views."""

_ACTIONS_PER_DIAL = 8

_RESTLESS = 30.0
"""Seconds after a change of the active view in which upkeep has its usual periods. Ours: joins have
found their links by then."""

_LONGEST_REST = 24.0
"""How many times longer periods get while the view stays as it is. Ours: a passive view of 42 is
mixed within hours, and a view that changes is as usual again at once."""


class _DialInProgress:
    """What waits for one dial, and since when."""

    __slots__ = ("actions", "began", "for_others")

    def __init__(self, began: Time, for_others: bool) -> None:
        self.actions: list[Action] = []
        self.began = began
        self.for_others = for_others
        """Whether only other nodes' messages asked for it."""


class OverlayState:
    """Views, connections and outgoing effects of one node in one topic."""

    __slots__ = (
        "_changed_at",
        "_connected",
        "_dial_time",
        "_dials",
        "_effects",
        "active",
        "askers",
        "banned_until",
        "found_nearer",
        "group_of",
        "me",
        "open_requests",
        "params",
        "passive",
        "places",
        "rng",
        "source_trees",
    )

    def __init__(
        self,
        me: PeerId,
        params: MembershipParams,
        rng: Random,
        group_of: GroupOf = ungrouped,
        source_trees: bool = True,
        name: str = "",
    ) -> None:
        self.me = me
        self.source_trees = source_trees
        """Whether this node takes part in trees of single sources; its neighbours have to know."""
        self.params = params
        self.rng = rng
        self.active = ActiveView()
        self.passive = PassiveView(params.passive_size, PASSIVE_SHARE, group_of)
        self.group_of = group_of
        rings = params.ring_links // 2
        self.places = Places(name, rings, group_of) if rings else None
        """Which peers are next to each other on rings; None where there are none."""
        self.askers = Askers(group_of)
        """Filled where there are rings."""
        self.banned_until: dict[PeerId, Time] = {}
        self.open_requests = OpenRequests()
        self._connected: dict[PeerId, bool] = {}
        """Whether the connection is probed (`Connected`)."""
        self._dials: dict[PeerId, _DialInProgress] = {}
        self.found_nearer = False
        """Whether a nearer peer has replaced a neighbour since the passive view probe last ran."""
        self._dial_time: Rtt | None = None
        """How long successful dials take."""
        self._changed_at: Time | None = None
        """When the active view last changed; None until that is looked at."""
        self._effects: list[Effect] = []

    def take_effects(self) -> list[Effect]:
        """What was emitted since the last call, in order."""
        effects, self._effects = self._effects, []
        return effects

    def emit(self, effect: Effect) -> None:
        self._effects.append(effect)

    def send(self, peer: PeerId, message: Message) -> None:
        self._effects.append(Send(peer, message))

    def drop(self, peer: PeerId | None, reason: DropReason) -> None:
        self._effects.append(Dropped(peer, reason))

    def jittered(self, period: float) -> float:
        """`period` give or take the timers' jitter (E16, E18, E19: "a randomised timer")."""
        return period * (1 + self.params.timer_jitter * (2 * self.rng.random() - 1))

    def calm(self, now: Time) -> float:
        """How many times longer than usual the periods of upkeep may be: they grow with the time
        for which the active view has been the same, so each change is followed by usual ones."""
        if self._changed_at is None:
            self._changed_at = now
        return min(max(1.0, (now - self._changed_at) / _RESTLESS), _LONGEST_REST)

    def may_rest(self, last: Time, period: Time, now: Time, most: float = _LONGEST_REST) -> bool:
        """Whether upkeep of this `period` that was `last` done then can wait for another one; its
        periods get `most` times longer."""
        return now - last < (min(self.calm(now), most) - 1) * period

    @property
    def is_in_need(self) -> bool:
        """Whether there are fewer than C_rand links, of whichever kind."""
        return len(self.active) < self.params.random_links

    # Links

    def send_neighbor(
        self, peer: PeerId, role: NeighborRole, kind: LinkKind, *peers: PeerId,
        nonce: int = 0, numbers_only: bool = False,
    ) -> None:  # fmt: skip
        """Send `peer` a NEIGHBOR with our own numbers of links."""
        random_links = self.active.count(LinkKind.RANDOM)
        links = len(self.active)
        trees = self.source_trees
        message = Neighbor(role, links, kind, peers, random_links, trees, nonce, numbers_only)
        self.send(peer, message)

    def ask_for_link(self, peer: PeerId, kind: LinkKind, now: Time) -> None:
        """Send `peer` a NEIGHBOR request."""
        nonce = self.open_requests.open(peer, now)
        self.send_neighbor(peer, NeighborRole.REQUEST, kind, nonce=nonce)

    def has_room_for_wish(self, peer: PeerId) -> bool:
        """Whether `peer`, which asks for a link, may get one even beyond A: few do, and one of each
        group."""
        size = self.params.active_size
        if len(self.active) < size:
            return True
        if len(self.active) >= min(size + MAX_ON_WISH, self.params.active_bound):
            self.drop(peer, DropReason.VIEW_FULL)
            return False
        group = self.group_of(peer)
        if group is not None and self.active.has_wish_of(group):
            self.drop(peer, DropReason.NEED_REPEATED)
            return False
        return True

    def add_on_wish(
        self, peer: PeerId, kind: LinkKind, now: Time, described: Neighbor | Join
    ) -> None:
        """As `add_link`, because `peer` asked for it."""
        beyond = len(self.active) >= self.params.active_size
        self.add_link(peer, kind, now, described)
        if beyond:
            self.active.note_wish(peer, self.group_of(peer))

    def has_had_time(self, link: Link, now: Time) -> bool:
        """Whether a neighbour that was taken in beyond A because it asked has had time to find
        other links: what it says about its need counts no more."""
        return link.on_wish and now - link.since >= NEED_BELIEVED

    def add_link(self, peer: PeerId, kind: LinkKind, now: Time, described: Neighbor | Join) -> None:
        """Put `peer` into the active view, with what it `described` about itself; the caller has
        checked the bound."""
        link = Link(kind, now)
        link.rtt = self.passive.rtt(peer)
        self.passive.remove(peer)
        if isinstance(described, Neighbor):
            link.update(described, now)
        self.active.add(peer, link)
        self._changed_at = None
        self.emit(NeighborUp(peer, kind, described.source_trees))

    def drop_link(self, peer: PeerId, reason: DownReason, *, notify: bool, remember: bool) -> None:
        """Take `peer` out of the active view; `notify` it, and `remember` it as passive."""
        link = self.active.remove(peer)
        if link is None:
            return
        self._changed_at = None
        failed = reason is DownReason.FAILED
        self.emit(NeighborDown(peer, reason, link.last_activity if failed else NEVER))
        if notify:
            self.send(peer, Disconnect())
        if remember:
            self.passive.add(peer, self.rng, link.rtt)
        if peer in self._connected:
            self.emit(Release(peer))

    # Bans

    def ban(self, peer: PeerId, until: Time) -> None:
        """End the link to `peer`, which gets none `until` then."""
        self.banned_until.pop(peer, None)
        self.banned_until[peer] = until
        if len(self.banned_until) > MAX_BANNED:
            del self.banned_until[next(iter(self.banned_until))]
        self.passive.remove(peer)
        self.askers.remove(peer)
        self.drop_link(peer, DownReason.BANNED, notify=True, remember=False)

    def is_banned(self, peer: PeerId, now: Time) -> bool:
        """Whether `peer` is banned at `now`."""
        until = self.banned_until.get(peer)
        if until is not None and until <= now:
            del self.banned_until[peer]
            return False
        return until is not None

    def remember(self, peer: PeerId, source: PeerId | None = None) -> None:
        """Put `peer`, which `source` named, into the passive view, unless it is us or a
        neighbour."""
        if (
            peer != self.me
            and peer not in self.active
            and peer not in self.banned_until
            and not self.passive.add(peer, self.rng, None, source)
        ):
            self.drop(source, DropReason.SHARE_FULL)

    # Round-trip times

    def update_rtt(self, peer: PeerId, rtt: float | None) -> None:
        """A ping of `peer` took `rtt` seconds, or failed (None)."""
        link = self.active.get(peer)
        if rtt is not None:
            if link is not None:
                link.update_rtt(rtt)
            self.passive.update_rtt(peer, rtt)
        elif link is not None:
            link.failed_pings += 1
            if link.failed_pings >= RTT_FAILURES:
                link.rtt = None
        elif self.passive.count_failed_ping(peer) >= RTT_FAILURES:
            self.passive.remove(peer)

    def distance(self, link: Link) -> float:
        """RTT in seconds; infinite once pings fail, 0 while unmeasured. The smoothed one, unless it
        has been shorter of late: a busy machine makes near neighbours look far."""
        if link.failed_pings >= RTT_FAILURES:
            return NEVER
        return 0.0 if link.rtt is None else min(link.rtt.mean, link.rtt.least)

    @property
    def all_near(self) -> bool:
        """Whether all measured neighbours are so near, as on a LAN, that no other peer could be
        nearer by the factor and by the gain that count (E10, E18). Their shortest RTTs say so,
        since others were measured while many joined."""
        far = self.params.rtt_advantage * self.params.rtt_min_gain
        known = [link.rtt.least for _, link in self.active.items() if link.rtt is not None]
        return bool(known) and max(known) <= far

    # Connections

    def is_connected(self, peer: PeerId) -> bool:
        return peer in self._connected

    def is_probed(self, peer: PeerId) -> bool:
        """Whether a connection to `peer` ends by itself soon after its host is gone."""
        return self._connected.get(peer, False)

    def release(self, peer: PeerId) -> None:
        """Let the driver close the connection to `peer`, unless it is a neighbour's."""
        if peer not in self.active and peer in self._connected:
            self.emit(Release(peer))

    def when_connected(
        self, peer: PeerId, action: Action, now: Time, *, for_others: bool = False
    ) -> None:
        """Run `action` now if `peer` is connected, else after a dial; a full table of dials
        counts as a failed one. `for_others`: another node's message asked for it. Part of the
        table is kept from those, or messages could keep us from the dials that we need."""
        if self.is_banned(peer, now):
            action(False, now)
            return
        if peer in self._connected:
            action(True, now)
            return
        dial = self._dials.get(peer)
        if dial is None:
            if len(self._dials) >= MAX_DIALS:
                action(False, now)
                return
            if for_others and not self._has_room_for_others():
                self.drop(peer, DropReason.DIALS_FULL)
                action(False, now)
                return
            dial = self._dials[peer] = _DialInProgress(now, for_others)
            self.emit(Dial(peer, for_others))
        elif not for_others:
            dial.for_others = False
        if len(dial.actions) >= _ACTIONS_PER_DIAL:
            action(False, now)
        else:
            dial.actions.append(action)

    def _has_room_for_others(self) -> bool:
        return sum(dial.for_others for dial in self._dials.values()) < MAX_DIALS_FOR_OTHERS

    def on_connected(self, peer: PeerId, now: Time, probed: bool | None = None) -> None:
        """`peer` is connected, in a way that is `probed` or not: do what waited for its dial."""
        self._connected[peer] = self.is_probed(peer) if probed is None else probed
        dial = take(self._dials, peer)
        if dial is not None:
            self._dial_time = updated(self._dial_time, now - dial.began)
            for action in dial.actions:
                action(True, now)

    def on_disconnected(self, peer: PeerId, now: Time) -> None:
        """The connection to `peer` is gone, or could not be made."""
        self._connected.pop(peer, None)
        dial = take(self._dials, peer)
        if dial is not None:
            for action in dial.actions:
                action(False, now)

    @property
    def dial_time(self) -> float:
        """Mean seconds of a dial; 0 while none has succeeded."""
        return 0.0 if self._dial_time is None else self._dial_time.mean

    def with_dial_time(self, timeout: float) -> float:
        """`timeout` plus the time that the other side may need for a dial of its own: where
        dials are slow, trying again soon would make them slower."""
        dial = self._dial_time
        return timeout if dial is None else timeout + dial.mean + 4 * dial.spread

    def clear(self) -> None:
        """Forget the passive view, requests, and all dials in progress; connections stay known."""
        self.open_requests.clear()
        self.passive.clear()
        self.askers.clear()
        self._dials.clear()
        self._changed_at = None
