"""What hostile nodes leave of the honest nodes' links, looked at once a second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from episub_router.sim.adversaries.cast import Cast
from episub_router.sim.network.network import Network
from episub_router.sim.routers.node import Node

LONG = 60.0
"""Seconds; a node that is eclipsed for longer counts as lost."""

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


def eclipses(looks: Sequence[Look]) -> list[float]:
    """How long each eclipse lasted, in s: times in which a node had no honest neighbour."""
    lasted = []
    since: dict[int, float] = {}
    for look in looks:
        now = dict.fromkeys(look.eclipsed)
        lasted += [look.time - start for node, start in since.items() if node not in now]
        since = {node: since.get(node, look.time) for node in now}
    if looks:
        lasted += [looks[-1].time + PERIOD - start for start in since.values()]
    return lasted


def figures(looks: Sequence[Look]) -> dict[str, Any]:
    """The honest nodes' links during `looks`; links are as they were at the last one, fewest over
    all of them. The fair share is that of the hostile nodes among all (Basalt: Auvolat, Bromberg,
    Frey and Taïani, 2021)."""
    if not looks:
        return {}
    last = looks[-1]
    lasted = eclipses(looks)
    share = 1 - last.honest_links / last.links if last.links else 0.0
    made = {
        "honest_links_mean": last.honest_links / last.nodes if last.nodes else 0.0,
        "honest_links_fewest": min(look.fewest for look in looks),
        "hostile_share_of_links": share,
        "hostile_share_over_fair": share / last.hostile if last.hostile else 0.0,
        "eclipsed": len({node for look in looks for node in look.eclipsed}),
        "eclipsed_at_end": len(last.eclipsed),
        "eclipsed_longest": max(lasted, default=0.0),
        "eclipsed_long": sum(seconds > LONG for seconds in lasted),
    }
    if last.fewest_of_victims >= 0:
        made["victims_honest_links_fewest"] = min(look.fewest_of_victims for look in looks)
    return made
