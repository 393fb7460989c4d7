"""What hostile nodes of all routers have in common: a ring, a time to strike, and knobs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable
from typing import Any, ClassVar

from episub_router.protocol.messages import TreeRoot
from episub_router.protocol.types import SourceId
from episub_router.sim.adversaries.settings import Attack
from episub_router.sim.hashing import unit
from episub_router.sim.routers.node import Node

_ASK_PERIOD = 1.0
"""Seconds between two rounds of asking for links."""
_ASKED_AT_ONCE = 32
"""Nodes asked in one round."""
_ALL = -1


class Hostile(Node):
    """Comes before a router's own `Node` among the bases of a class, which sets `ring`.

    Kinds override what they need of the hooks.
    """

    __slots__ = ()

    ring: Ring

    @property
    def striking(self) -> bool:
        """Whether the time to be hostile has come."""
        return self.loop.now >= self.ring.settings.at

    def strike(self) -> None:
        """The time to be hostile has come."""

    def on_learned(self, message: int) -> None:
        """The ring knows of `message` now."""

    def on_root_learned(self, root: TreeRoot) -> None:
        """The ring knows a new round of a source now."""

    def withholds(self, message: int) -> bool:
        """Whether `message` is not forwarded; asked while striking."""
        settings = self.ring.settings
        chosen = self.ring.sources[: settings.sources or None]
        return self.records.messages[message].source in chosen and (
            unit(message, -1 if self.ring.conspires else self.id) < settings.withheld
        )

    def late(self, send: Callable[[Any], None], payload: Any) -> None:
        """Call `send` with `payload`, later where payloads leave late."""
        delay = self.ring.settings.delay if self.striking else 0.0
        if delay:
            self.loop.at(self.loop.now + delay, send, payload)
        else:
            send(payload)

    def copies(self, message: int) -> int:
        """How often `message`, which is new here, is pushed to all neighbours."""
        settings = self.ring.settings
        if not self.striking:
            return settings.early_copies
        return 0 if self.withholds(message) else settings.copies

    def ping_time(self, rtt: float) -> float:
        return rtt * self.ring.settings.rtt if self.striking else rtt

    def enter_ring(self) -> None:
        """Be a member of the ring from the start of this life to its end."""
        self.session.hostile = True
        self.trace_event("node", state="hostile")
        self.ring.up[self.id] = self
        self.loop.at(max(self.loop.now, self.ring.settings.at), self._strike, None)

    def _strike(self, _: None) -> None:
        if self.live:
            self.strike()
            period = self.ring.settings.relink
            if period:
                self.loop.at(self.loop.now + period, self._relink_from, period)

    def _relink_from(self, period: float) -> None:
        self.every(period, self._relink)

    def _relink(self) -> None:
        peers = [*self.links]
        for peer in peers:
            self.network.close(self, peer)
        for peer in peers:
            self.network.dial(self, peer)

    def every(self, period: float, action: Callable[[], None]) -> None:
        """Call `action` now and then every `period` seconds, while this node is up."""
        if self.live:
            action()
            again: Callable[[None], None] = lambda _: self.every(period, action)  # noqa: E731
            self.loop.at(self.loop.now + period, again, None)

    def crash(self) -> None:
        super().crash()
        self.ring.up.pop(self.id, None)

    def leave(self) -> None:
        super().leave()
        self.ring.up.pop(self.id, None)


class Ring:
    """The members of one table, and what they know together.

    What one member learns all know at once: worse than any network between them.
    """

    def __init__(
        self,
        settings: Attack,
        members: tuple[int, ...],
        honest: tuple[int, ...],
        sources: tuple[int, ...],
        victims: tuple[int, ...],
    ) -> None:
        self.settings = settings
        self.members = members
        self.honest = honest
        self.sources = sources
        self.victims = victims
        self.up: dict[int, Hostile] = {}
        """The members that are up, by id."""
        self._messages: dict[tuple[int, int], None] = {}
        """(message, knower), as below. Bound: the run's messages, times the members."""
        self._rounds: dict[tuple[SourceId, int], int] = {}
        """The newest known round of each (source, knower). Bound: sources, times the members."""

    @property
    def conspires(self) -> bool:
        """Whether the members know each other."""
        return self.settings.knows != "nobody"

    def friends(self, of: int) -> list[int]:
        """The members that `of` can name, itself first."""
        return [of, *(member for member in self.up if member != of)] if self.conspires else [of]

    def _sharing(self, by: Hostile) -> tuple[int, list[Hostile]]:
        """The name of what `by` shares its knowledge with, and the members of that."""
        return (_ALL, list(self.up.values())) if self.conspires else (by.id, [by])

    def learn(self, message: int, by: Hostile) -> None:
        """`by` has seen the id of `message`."""
        knower, members = self._sharing(by)
        if (message, knower) not in self._messages:
            self._messages[message, knower] = None
            for member in members:
                member.on_learned(message)

    def learn_root(self, root: TreeRoot, ahead: int, by: Hostile) -> None:
        """`by` has received a ROOT, and forges one whose round is `ahead` of it."""
        knower, members = self._sharing(by)
        if root.round > self._rounds.get((root.source, knower), -1):
            # What comes back of the forged one isn't news.
            self._rounds[root.source, knower] = root.round + ahead
            for member in members:
                member.on_root_learned(root)


class Asking(Hostile):
    """`GreedyAttack`: asks all its targets for links again and again."""

    __slots__ = ()

    again: ClassVar[float]
    """Seconds until a node that refused is asked again."""
    asked_at: dict[int, float]
    """When each node was last asked. Bound: the nodes of the run."""

    def enter_ring(self) -> None:
        self.asked_at = {}  # type: ignore[misc]  # A slot of the classes that are made.
        super().enter_ring()

    def strike(self) -> None:
        self.every(_ASK_PERIOD, self._ask_all)

    @abstractmethod
    def ask(self, peer: int) -> None:
        """Ask the connected `peer`."""

    @abstractmethod
    def held(self) -> Collection[int]:
        """Those whose links it has."""

    def known(self) -> Iterable[int]:
        """Those that it knows by itself."""
        return self.links

    def _targets(self) -> Iterable[int]:
        ring = self.ring
        if ring.victims or ring.settings.knows == "everybody":
            return ring.victims or ring.honest
        return [peer for peer in dict.fromkeys(self.known()) if peer not in ring.up]

    def _ask_all(self) -> None:
        now, held, asked = self.loop.now, self.held(), self.asked_at
        left = [peer for peer in self._targets() if peer not in held]
        due = [peer for peer in left if now - asked.get(peer, -self.again) >= self.again]
        for peer in self.rng.sample(due, min(len(due), _ASKED_AT_ONCE)):
            asked[peer] = now
            if peer in self.links:
                self.ask(peer)
            else:
                self.network.dial(self, peer)

    def connected(self, peer: int) -> None:
        super().connected(peer)  # type: ignore[safe-super]
        if peer in self.asked_at and peer in self.outbound:
            self.ask(peer)
