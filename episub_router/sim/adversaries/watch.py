"""Looks at the honest nodes' links, once a second, while there are hostile nodes."""

from __future__ import annotations

from dataclasses import dataclass

from episub_router.sim.adversaries.cast import Cast
from episub_router.sim.network.network import Network
from episub_router.sim.routers.node import Node

PERIOD = 1.0
"""Seconds between two looks."""

SETTLING = 10.0
"""Seconds that a node has been up before it is looked at: it joins first."""


@dataclass(frozen=True, slots=True)
class Look:
    """The honest nodes' links at one time."""

    time: float
    hostile: float
    """Share of the nodes that are up that is hostile."""
    nodes: int
    """Honest nodes that have been up for `SETTLING` seconds; the rest is over these."""
    links: int
    """Their links, each counted at both ends."""
    honest_links: int
    """Those to honest nodes."""
    fewest: int
    """The least links to honest nodes that a node has."""
    fewest_of_victims: int
    """The same of the nodes that an attack aims at; -1 where there are none."""
    eclipsed: tuple[int, ...]
    """The nodes without a link to an honest one."""


class Watch:
    """The looks of a run, in order. Bound: one a second."""

    def __init__(self, network: Network[Node], cast: Cast) -> None:
        self.looks: list[Look] = []
        self._network = network
        self._cast = cast

    def start(self) -> None:
        """Look now, and from now on."""
        self._look(None)

    def _look(self, _: None) -> None:
        loop, cast = self._network.loop, self._cast
        loop.at(loop.now + PERIOD, self._look, None)
        links = honest = 0
        of: dict[int, int] = {}
        nodes = self._network.nodes
        for node in nodes.values():
            if node.id not in cast and loop.now - node.session.started >= SETTLING:
                neighbors = list(node.neighbors())
                of[node.id] = sum(peer not in cast for peer in neighbors)
                links += len(neighbors)
                honest += of[node.id]
        self.looks.append(
            Look(
                time=loop.now,
                hostile=sum(node in cast for node in nodes) / max(1, len(nodes)),
                nodes=len(of),
                links=links,
                honest_links=honest,
                fewest=min(of.values(), default=0),
                fewest_of_victims=min((of.get(node, 0) for node in cast.victims), default=-1),
                eclipsed=tuple(node for node, count in of.items() if not count),
            )
        )
