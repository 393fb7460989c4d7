"""What hostile nodes leave of the honest nodes' links."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from episub_router.sim.adversaries.watch import PERIOD, Look

LONG = 60.0
"""Seconds; a node that is eclipsed for longer counts as lost."""


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
