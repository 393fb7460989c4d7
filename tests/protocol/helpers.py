"""One node on its own: feed it events, let its time pass, see what it wants to do.

Peers are strings, and "me" is the node under test.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from random import Random
from typing import Any

from episub_router.protocol import events as ev
from episub_router.protocol.effects import Dial, Dropped, DropReason, Effect, NeighborUp, Send
from episub_router.protocol.messages import (
    BroadcastMessage,
    IHave,
    LinkKind,
    Message,
    MessageSummary,
    Neighbor,
    NeighborRole,
    Prune,
)
from episub_router.protocol.params import BroadcastParams, EpisubParams, MembershipParams
from episub_router.protocol.plumtree import Plumtree
from episub_router.protocol.plumtree.lazy_push import LAZY_DELAY
from episub_router.protocol.topic import Topic

ME = "me"


def sent(effects: Iterable[Effect], *kinds: type) -> list[tuple[Any, Any]]:
    """The (peer, message) pairs that `effects` send, of the given kinds or of all."""
    return [
        (effect.peer, effect.message)
        for effect in effects
        if isinstance(effect, Send) and (not kinds or isinstance(effect.message, kinds))
    ]


def drops(effects: Iterable[Effect]) -> list[DropReason]:
    return [effect.reason for effect in effects if isinstance(effect, Dropped)]


def dials(effects: Iterable[Effect]) -> list[Any]:
    return [effect.peer for effect in effects if isinstance(effect, Dial)]


def requests(effects: Iterable[Effect]) -> list[Any]:
    """Peers that are asked for a link."""
    asked = sent(effects, Neighbor)
    return [peer for peer, message in asked if message.role is NeighborRole.REQUEST]


def ihave(*ids: object, hops: int = 1) -> IHave:
    """An IHAVE of these ids, all at the same hop count."""
    return IHave(tuple(MessageSummary(id, hops) for id in ids))


def request(
    links: int = 0, kind: LinkKind = LinkKind.RANDOM, random_links: int | None = None
) -> Neighbor:
    """A NEIGHBOR request of a peer with that many links, all random unless said otherwise."""
    random = links if random_links is None else random_links
    return Neighbor(NeighborRole.REQUEST, links, kind, random_links=random)


def accept(links: int = 5, kind: LinkKind = LinkKind.RANDOM) -> Neighbor:
    return Neighbor(NeighborRole.ACCEPT, links, kind, random_links=links)


def specified(**changed: Any) -> MembershipParams:
    """The specification's sizes (E01), which know no rings: no place in a view is anybody's."""
    sizes: dict[str, Any] = {"active_size": 7, "near_links": 3, "rings": 0, "passive_size": 42}
    return MembershipParams(**(sizes | changed))


class Clock:
    """What a `Topic` and a `Plumtree` have in common for a test: time and timers."""

    machine: Topic | Plumtree

    def __init__(self) -> None:
        self.now = 0.0

    def handle(self, event: Any) -> list[Effect]:
        return self.machine.handle(event, self.now)

    def wait(self, seconds: float) -> list[Effect]:
        """Let `seconds` pass; what the timers wanted on the way."""
        end = self.now + seconds
        effects: list[Effect] = []
        while (due := self.machine.next_deadline()) <= end:
            self.now = max(due, self.now)
            effects += self.machine.handle_timer(self.now)
            assert self.machine.next_deadline() > self.now, "a timer that stays due"
        self.now = end
        return effects


class Member(Clock):
    """A `Topic` that has joined, with the given neighbours and passive peers.

    Its parameters are those that are shipped, unless `membership` says otherwise. A peer that sends
    something is connected.
    """

    def __init__(
        self,
        *neighbors: str,
        passive: Iterable[str] = (),
        membership: MembershipParams | None = None,
        broadcast: BroadcastParams | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__()
        both = EpisubParams(
            membership=membership or MembershipParams(),
            broadcast=broadcast or BroadcastParams(),
        )
        self.params = both.membership
        self.machine: Topic = Topic(ME, "t", both, Random(seed))
        self.handle(ev.JoinOverlay())
        for peer in neighbors:
            self.link(peer)
        self.handle(ev.ContactsFound(tuple(passive)))

    @property
    def active(self) -> set[Any]:
        return set(self.machine.membership.active)

    @property
    def passive(self) -> set[Any]:
        return set(self.machine.membership.passive)

    def receive(self, peer: str, message: Message) -> list[Effect]:
        return self.handle(ev.Received(peer, message))

    def reach(self, effects: list[Effect]) -> list[Effect]:
        """Let all dials of `effects` succeed; these, and what follows."""
        return effects + [e for peer in dials(effects) for e in self.handle(ev.Connected(peer))]

    def live(self, seconds: float, step: float = 1.0) -> list[Effect]:
        """Let `seconds` pass, in which all neighbours say that they need their links."""
        effects: list[Effect] = []
        for _ in range(round(seconds / step)):
            effects += self.wait(step)
            for peer in self.active:
                self.receive(peer, Neighbor(NeighborRole.LIST, 8, random_links=4))
        return effects

    def link(
        self, peer: str, kind: LinkKind = LinkKind.RANDOM, links: int = 0, random_links: int = 0
    ) -> list[Effect]:
        """Make `peer` a neighbour at its own request."""
        effects = self.receive(peer, request(links, kind, random_links))
        assert peer in self.active
        return effects


class Branch(Clock):
    """A `Plumtree` with the given eager and lazy neighbours, and RTTs that a test may set."""

    def __init__(
        self,
        *eager: str,
        lazy: Iterable[str] = (),
        params: BroadcastParams | None = None,
        lazy_interval: float = LAZY_DELAY,
        seed: int = 0,
    ) -> None:
        super().__init__()
        self.params = replace(params or BroadcastParams(), lazy_interval=lazy_interval)
        self.rtts: dict[Any, float] = {}
        self.machine: Plumtree = Plumtree(self.params, Random(seed), self.rtts.get)
        for peer in (*eager, *lazy):
            self.handle(NeighborUp(peer, LinkKind.RANDOM))
        for peer in lazy:
            self.receive(peer, Prune())

    @property
    def eager(self) -> set[Any]:
        return set(self.machine.eager)

    @property
    def lazy(self) -> set[Any]:
        return set(self.machine.lazy)

    def receive(self, peer: str, message: BroadcastMessage) -> list[Effect]:
        return self.machine.receive(peer, message, self.now)

    def publish(self, id: object, size: int = 0) -> list[Effect]:
        return self.handle(ev.Publish(id, f"payload {id}", size))

    def flush(self) -> list[Effect]:
        """Wait until what is queued for announcement has gone out."""
        return self.wait(max(LAZY_DELAY, self.params.lazy_interval))
