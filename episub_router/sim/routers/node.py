"""A simulated host, and the one interface that all routers have in here."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from episub_router.protocol.types import NEVER
from episub_router.sim.network.host import Host, NodeId
from episub_router.sim.network.network import Network
from episub_router.sim.records import Ending, Session


class Node(Host):
    """One life of one host. A host that comes back is a new object with the same id."""

    __slots__ = ("_wake", "loop", "network", "records", "rng", "session")

    def __init__(self, node: NodeId, network: Network[Node], rng: random.Random) -> None:
        super().__init__(node)
        self.network = network
        self.loop = network.loop
        self.records = network.records
        self.rng = rng
        self.session = Session(node, started=self.loop.now)
        self.records.sessions.append(self.session)
        self._wake = NEVER
        network.add(self)

    # What a router implements.

    @abstractmethod
    def start(self, contacts: tuple[NodeId, ...]) -> None:
        """Join the overlay, knowing these `contacts`."""

    @abstractmethod
    def inject(self, message: int, size: int) -> None:
        """Take `message` from the application here, or from a publisher outside."""

    @abstractmethod
    def goodbye(self) -> None:
        """Send what the protocol has for leaving."""

    @abstractmethod
    def timer(self) -> None:
        """The time given to `wake_at` has come."""

    @abstractmethod
    def neighbors(self) -> Iterable[int]:
        """The overlay as this node sees it: peers that payloads or announcements go to."""

    def near_neighbors(self) -> Iterable[int]:
        """Those neighbours that were chosen for their nearness."""
        return ()

    def eager(self) -> Iterable[int]:
        """Those neighbours that payloads are pushed to."""
        return self.neighbors()

    # What a router uses.

    def wake_at(self, deadline: float) -> None:
        """Have `timer` called at `deadline`, or earlier if an earlier time was asked for."""
        if deadline < self._wake:
            self._wake = deadline
            self.loop.at(deadline, self._woken, deadline)

    def _woken(self, deadline: float) -> None:
        # A wake-up that an earlier one has overtaken is stale.
        if deadline == self._wake and self.live:
            self._wake = NEVER
            self.timer()

    def trace_event(self, event: str, **columns: Any) -> None:
        """Record `event` in the trace, if there is one, with columns of `trace.simulated.Row`."""
        trace = self.records.trace
        if trace is not None:
            trace.add(self.loop.now, event, self.id, **columns)

    def trace_send(self, peers: Iterable[NodeId], size: int, **columns: Any) -> None:
        """Record a sendRPC to each of `peers` in the trace, if there is one."""
        trace = self.records.trace
        if trace is not None:
            for peer in peers:
                trace.add(self.loop.now, "sendRPC", self.id, remote=peer, size=size, **columns)

    def gained_neighbor(self) -> None:
        """Note that this node has a neighbour, perhaps its first or its first again."""
        session = self.session
        if session.joined == NEVER:
            session.joined = self.loop.now
        elif session.alone and session.alone[-1][1] == NEVER:
            session.alone[-1] = (session.alone[-1][0], self.loop.now)

    def lost_all_neighbors(self) -> None:
        """Note that the last neighbour is gone."""
        self.session.alone.append((self.loop.now, NEVER))

    # What the script calls.

    def crash(self) -> None:
        """Stop without a word."""
        self.network.crash(self)
        self._end(Ending.CRASHED)

    def leave(self) -> None:
        """Say goodbye and stop."""
        self.goodbye()
        self.network.depart(self)
        self._end(Ending.LEFT)

    def _end(self, ending: Ending) -> None:
        self.live = False
        self.session.ended = self.loop.now
        self.session.ending = ending
