"""The lifecycle script: what goes wrong, and when."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

from episub_router.sim.metrics.accounting import Cut
from episub_router.sim.metrics.overlay import flood_reach
from episub_router.sim.network.network import Network
from episub_router.sim.routers.node import Node
from episub_router.sim.scenario.faults import (
    ChurnFault,
    CrashFault,
    FlapFault,
    LeaveFault,
    PartitionFault,
)
from episub_router.sim.scenario.settings import Scenario


@dataclass(frozen=True, slots=True)
class Struck:
    """A fault that happened: how many nodes it took, and how far a flood over the links that
    were left would have reached without repair (share of the live nodes)."""

    kind: str
    at: float
    nodes: int
    frozen_reach: float | None = None


class Script:
    """Carries out the scenario's faults on `network`. The fixed `sources` are spared.

    `start` brings up the node with a given id; `overlay` returns the matrix of the live nodes'
    neighbours, and their ids in its order.
    """

    def __init__(
        self,
        scenario: Scenario,
        network: Network[Node],
        rng: Random,
        sources: Iterable[int],
        start: Callable[[int], object],
        overlay: Callable[[], tuple[Any, list[int]]],
    ) -> None:
        self._scenario = scenario
        self._network = network
        self._loop = network.loop
        self._rng = rng
        self._spared = dict.fromkeys(sources)
        self._start = start
        self._overlay = overlay
        self.struck: list[Struck] = []
        self.cuts: list[Cut] = []
        self._newcomer = scenario.network.nodes

    def arm(self) -> None:
        """Queue all faults."""
        for fault in self._scenario.faults:
            self._loop.at(fault.at, getattr(self, f"_{fault.kind}"), fault)

    def _victims(self, share: float, target: str = "random") -> list[Node]:
        """`share` of the live nodes."""
        nodes = self._network.nodes
        candidates = [node for node in nodes.values() if node.id not in self._spared]
        count = min(len(candidates), round(share * len(nodes)))
        if target == "random":
            return self._rng.sample(candidates, count)
        candidates.sort(key=lambda node: (-sum(1 for _ in node.neighbors()), node.id))
        return candidates[:count]

    def _crash(self, fault: CrashFault) -> None:
        victims = self._victims(fault.share, fault.target)
        for node in victims:
            node.crash()
        overlay, _ = self._overlay()
        self.struck.append(Struck("crash", fault.at, len(victims), flood_reach(overlay)))

    def _leave(self, fault: LeaveFault) -> None:
        victims = self._victims(fault.share)
        for node in victims:
            node.leave()
        self.struck.append(Struck("leave", fault.at, len(victims)))

    def _flap(self, fault: FlapFault) -> None:
        victims = self._victims(fault.share)
        self.struck.append(Struck("flap", fault.at, len(victims)))
        self._flap_down(fault, [node.id for node in victims], fault.times)

    def _flap_down(self, fault: FlapFault, ids: list[int], left: int) -> None:
        for node in ids:
            running = self._network.nodes.get(node)
            if running is not None:
                running.crash()
        up = partial(self._flap_up, fault, ids)
        self._loop.at(self._loop.now + fault.down, up, left)

    def _flap_up(self, fault: FlapFault, ids: list[int], left: int) -> None:
        for node in ids:
            if node not in self._network.nodes:
                self._start(node)
        if left > 1:
            down = partial(self._flap_down, fault, ids)
            self._loop.at(self._loop.now + fault.up, down, left - 1)

    def _churn(self, fault: ChurnFault) -> None:
        rate = fault.rate * self._scenario.network.nodes
        total = int((fault.until - fault.at) * rate)
        self.struck.append(Struck("churn", fault.at, total))
        for index in range(total):
            self._loop.at(fault.at + index / rate, self._churn_one, fault)

    def _churn_one(self, fault: ChurnFault) -> None:
        victims = self._victims(1.5 / len(self._network.nodes))[:1]
        crashes = self._rng.random() < fault.crash
        for node in victims:
            if crashes:
                node.crash()
            else:
                node.leave()
        self._start(self._newcomer)
        self._newcomer += 1

    def _partition(self, fault: PartitionFault) -> None:
        # A source may be on either side: the partition takes no node down.
        nodes = list(self._network.nodes)
        apart = self._rng.sample(nodes, round(fault.share * len(nodes)))
        side = dict.fromkeys(sorted(apart), 1)
        self.cuts.append(Cut(fault.at, fault.at + fault.seconds, side))
        self.struck.append(Struck("partition", fault.at, len(apart)))
        self._network.partition(side)
        self._loop.at(fault.at + fault.seconds, self._heal, None)

    def _heal(self, _: object) -> None:
        self._network.heal()
