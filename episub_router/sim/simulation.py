"""One run under way: nodes that come, publish, fail and go, as the scenario says."""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Any

from episub_router.sim.adversaries.cast import Cast
from episub_router.sim.faults import Script
from episub_router.sim.hashing import generator
from episub_router.sim.huge_pages import HugePages
from episub_router.sim.metrics.accounting import Islands
from episub_router.sim.metrics.eclipse import Watch
from episub_router.sim.metrics.overlay import adjacency, components
from episub_router.sim.network.network import Network
from episub_router.sim.network.queue import EventLoop
from episub_router.sim.records import Records
from episub_router.sim.routers.episub import EpisubNode
from episub_router.sim.routers.floodsub import FloodsubNode
from episub_router.sim.routers.gossipsub import GossipsubNode
from episub_router.sim.routers.gossipsub_choke import ChokingGossipsubNode
from episub_router.sim.routers.gossipsub_large import LargeGossipsubNode
from episub_router.sim.routers.gossipsub_scored import ScoredGossipsubNode
from episub_router.sim.routers.node import Node
from episub_router.sim.routers.params import GossipsubParams
from episub_router.sim.routers.settings import EpisubConfig, GossipsubConfig
from episub_router.sim.routers.traced import traced
from episub_router.sim.scenario.settings import Scenario
from episub_router.sim.scenario.traffic import PREFACE_TURN
from episub_router.sim.synthetic import settle
from episub_router.trace.simulated import OUTSIDE

Progress = Callable[[float, int], None]
"""Called from time to time with the virtual time and the number of events so far."""

_SLICES = 200


@dataclass(slots=True)
class PhaseSnapshot:
    """The overlay and the counters at one moment."""

    time: float
    overlay: Any
    """Sparse matrix of the live nodes' neighbours (`metrics.overlay`)."""
    ids: list[int]
    near: Any
    """Likewise, those links alone that were made for their nearness."""
    connections: int
    """Open connections, each counted once."""
    traffic: dict[str, tuple[int, int]]
    """(transmissions, modelled bytes) by kind of message, since the start."""
    sent: dict[int, tuple[float, int]]
    """When each host came up, and its bytes since then, where hosts' uplinks differ."""


class Simulation:
    """The state of a run. `run` performs it; then `records` and `snapshots` hold the outcome."""

    def __init__(
        self, scenario: Scenario, seed: int, records: Records, loop: EventLoop | None = None
    ) -> None:
        self.scenario = scenario
        self.seed = seed
        self.records = records
        records.authors = scenario.traffic.authors
        self.loop = EventLoop() if loop is None else loop
        self.network: Network[Node] = Network(
            self.loop, scenario.latency, scenario.network, seed, records
        )
        self.rng = generator(seed, "script")
        self.snapshots: list[PhaseSnapshot] = []
        self.islands: list[Islands] = []
        """The components at each snapshot and, where there are faults, at each publishing."""
        self.sources = self._choose_sources()
        self.cast = self._choose_adversaries()
        self.network.prefixes.update(self.cast.prefixes())
        self.watch = Watch(self.network, self.cast)
        self.script = Script(
            scenario, self.network, self.rng, self.sources, self.start, self.overlay
        )
        router = scenario.router
        self.params: Any = (
            router.params
            if isinstance(router, EpisubConfig)
            else GossipsubParams(**router.merged())
        )
        self._make = self._node_factory()
        self._contact_rng = generator(seed, "contacts")
        self._lives: dict[int, int] = {}
        self._schedule = scenario.traffic.schedule(generator(seed, "traffic"))

    def run(self, progress: Progress | None = None) -> None:
        """Perform the whole scenario, or what is left of it after a warm-up."""
        scenario = self.scenario
        with collection_held_off():
            self.warm_up(math.nextafter(scenario.quiet_until, 0.0), progress)
            # Before what happens at the same time, so that a phase has all of it.
            for phase in scenario.measured:
                self.loop.at(phase.start, self._take_snapshot, None)
            self._queue_next()
            self.script.arm()
            if self.cast:
                self.watch.start()
            self._advance(scenario.end, progress)
        self._take_snapshot(None)

    def warm_up(self, until: float, progress: Progress | None = None) -> None:
        """Have the nodes join, and go on to the time `until`, before anything else happens."""
        nodes, over = self.scenario.network.nodes, self.scenario.join.over
        if not self._lives and self.scenario.join.synthetic:
            self._settle()
        elif not self._lives:
            for node in range(nodes):
                self.loop.at(self.cast.comes(node) or over * node / nodes, self.start, node)
        self._advance(until, progress)

    def _settle(self) -> None:
        """Bring all nodes up in an overlay that is there from the start, but for those that are to
        come later."""
        made: list[Any] = []
        for node in range(self.scenario.network.nodes):
            if comes := self.cast.comes(node):
                self.loop.at(comes, self.start, node)
            else:
                self._lives[node] = 1
                made.append(self._make(node, generator(self.seed, "router 0", node)))
        rng = generator(self.seed, "overlay")
        looked_at = self.scenario.join.looked_at
        settle(made, self.network, self.params, looked_at, self._contacts, rng)

    def _advance(self, until: float, progress: Progress | None) -> None:
        """Go on to the time `until`, with a call of `progress` each two-hundredth of the run."""
        pages = HugePages()
        slice = self.scenario.end / _SLICES
        while self.loop.now < until:
            done = math.floor(self.loop.now / slice + 1e-6)
            self.loop.run(min(until, (done + 1) * slice))
            pages.follow()
            if progress is not None:
                progress(self.loop.now, self.loop.performed)

    # Nodes.

    def start(self, node: int) -> Node:
        """Bring `node` up, for the first time or again."""
        life = self._lives.get(node, 0)
        self._lives[node] = life + 1
        made = self._make(node, generator(self.seed, f"router {life}", node))
        made.start(self._contacts(node))
        return made

    def _node_factory(self) -> Callable[[int, Any], Node]:
        router = self.scenario.router
        kind: Any = FloodsubNode
        if isinstance(router, EpisubConfig):
            kind = EpisubNode
        elif isinstance(router, GossipsubConfig):
            kind = ScoredGossipsubNode if router.scoring else GossipsubNode
            if self.params.choke_interval or self.params.choke_after:
                kind = ChokingGossipsubNode
            elif router.is_large:
                kind = LargeGossipsubNode
        wrap: Any = cache(traced) if self.records.trace is not None else lambda kind: kind
        honest, cast = wrap(kind), self.cast
        network, params = self.network, self.params

        def make(node: int, rng: Any) -> Any:
            if node in cast:
                return cast.make(node, wrap, node, network, rng, params)
            return honest(node, network, rng, params)

        return make

    def _contacts(self, node: int) -> tuple[int, ...]:
        """The contacts of `node` when it comes up: nodes that are up, or come up with it."""
        joining, router = self.scenario.join, self.scenario.router
        count = joining.contacts if isinstance(router, EpisubConfig) else self.params.connect
        total = self.scenario.network.nodes
        together = self.loop.now == 0 and not joining.over
        candidates = list(range(total) if together else self.network.nodes)
        if together and self.cast:
            candidates = [other for other in candidates if not self.cast.comes(other)]
        if joining.via == "first" and isinstance(router, EpisubConfig):
            candidates = list(range(min(count, total)))
        # Contacts are nodes that can be dialled, as bootstrap nodes are: draw enough to have
        # as many left.
        drawn = 16 + int(2 * count / (1 - self.scenario.network.nat_share))
        spare = self._contact_rng.sample(candidates, min(drawn, len(candidates)))
        fit = (other for other in spare if other != node and self.network.dialable(other))
        return tuple(islice(fit, count))

    # Traffic.

    def _choose_sources(self) -> tuple[int, ...]:
        """The fixed sources, which faults spare."""
        count, nodes = self.scenario.traffic.fixed, self.scenario.network.nodes
        return tuple(self.rng.sample(range(nodes), min(count, nodes)))

    def _choose_adversaries(self) -> Cast:
        scenario = self.scenario
        # All know these, as bootstrap nodes.
        first = scenario.join.contacts if scenario.join.via == "first" else 0
        return Cast(
            scenario.adversaries,
            scenario.router.kind,
            scenario.network.nodes,
            self.sources,
            tuple(range(min(first, scenario.network.nodes))),
            generator(self.seed, "adversaries"),
        )

    def _queue_next(self) -> None:
        due = next(self._schedule, None)
        if due is not None:
            time, turn = due
            self.loop.at(time, self._publish, turn)

    def _publish(self, turn: int) -> None:
        traffic = self.scenario.traffic
        self._queue_next()
        if self.scenario.faults or self.cast:
            self._note_islands(*self.overlay())
        if traffic.source == "outside":
            self._publish_from_outside()
            return
        source = self._source(turn)
        message = self._record(source.id)
        source.inject(message, self.records.messages[message].size)

    def _record(self, source: int) -> int:
        size = self.scenario.traffic.size_of(len(self.records.messages))
        return self.records.publish(self.loop.now, source, size)

    def _source(self, turn: int) -> Node:
        traffic, nodes = self.scenario.traffic, self.network.nodes
        if turn == PREFACE_TURN:
            return nodes[self.sources[-1]]
        if traffic.source in ("one", "few", "new", "chat"):
            own = self.sources[:-1] if traffic.preface else self.sources
            return nodes[own[turn % len(own)]]
        if self.sources:
            return nodes[self.rng.choice(self.sources)]
        live = list(nodes.values())
        return self.rng.choice(live) if traffic.source == "random" else live[turn % len(live)]

    def _publish_from_outside(self) -> None:
        """G01: the same message to `fanout` random nodes, each after its own delay."""
        traffic = self.scenario.traffic
        message = self._record(OUTSIDE)
        chosen = self.rng.sample(list(self.network.nodes), traffic.fanout)
        self.records.messages[message].payloads += len(chosen)
        self.records.sent("publish", len(chosen), 0)
        for node in chosen:
            delay = self.network.delay(self.scenario.capacity, node)
            self.loop.at(self.loop.now + delay, self._inject, (node, message))

    def _inject(self, arrival: tuple[int, int]) -> None:
        node, message = arrival
        target = self.network.nodes.get(node)
        if target is not None:
            target.inject(message, self.records.messages[message].size)

    # Looking.

    def overlay(self) -> tuple[Any, list[int]]:
        """The matrix of the live honest nodes' neighbours as it is now, and their ids in its
        order."""
        nodes = self._honest()
        return adjacency({node: nodes[node].neighbors() for node in nodes})

    def _honest(self) -> dict[int, Node]:
        nodes, cast = self.network.nodes, self.cast
        return {node: nodes[node] for node in nodes if node not in cast} if cast else nodes

    def _take_snapshot(self, _: object) -> None:
        nodes = self._honest()
        overlay, ids = self.overlay()
        self._note_islands(overlay, ids)
        self.snapshots.append(
            PhaseSnapshot(
                time=self.loop.now,
                overlay=overlay,
                ids=ids,
                near=adjacency({node: nodes[node].near_neighbors() for node in nodes})[0],
                connections=sum(len(node.links) for node in nodes.values()) // 2,
                traffic={
                    kind: (entry.sends, entry.size) for kind, entry in self.records.traffic.items()
                },
                sent=self._sent(),
            )
        )

    def _sent(self) -> dict[int, tuple[float, int]]:
        network = self.network
        if not network.uplinks_differ:
            return {}
        return {
            host: (network.nodes[host].session.started, count)
            for host, count in network.sent().items()
        }

    def _note_islands(self, overlay: Any, ids: list[int]) -> None:
        labels = components(overlay)
        # Mostly there is one, and nothing to remember.
        label = dict(zip(ids, labels, strict=True)) if any(labels) else {}
        self.islands.append(Islands(self.loop.now, label))


@contextmanager
def collection_held_off() -> Iterator[None]:
    """Garbage collection looks through millions of objects and finds nothing."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
