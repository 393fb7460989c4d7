"""Which nodes of a run are hostile, and what each of them is."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from episub_router.protocol.hyparview import Places
from episub_router.protocol.params import MembershipParams
from episub_router.sim.adversaries import gossipsub as gs
from episub_router.sim.adversaries import lies, links
from episub_router.sim.adversaries import settings as of
from episub_router.sim.adversaries.hostile import Ring
from episub_router.sim.adversaries.member import Member
from episub_router.sim.routers.episub import TOPIC_NAME
from episub_router.sim.strict import ScenarioError

EPISUB: dict[type[of.Attack], type[Member]] = {
    of.CensorAttack: Member,
    of.CovertFlashAttack: Member,
    of.IHaveLiarAttack: lies.IHaveLiar,
    of.HijackAttack: lies.Hijack,
    of.RootLiarAttack: lies.RootLiar,
    of.GreedyAttack: links.Greedy,
    of.JoinCaptureAttack: links.JoinCapture,
    of.PoisonAttack: lies.Poison,
}
"""The members of each kind, where the router is Episub."""

GOSSIPSUB: dict[type[of.Attack], type[gs.GossipsubMember]] = {
    of.CensorAttack: gs.GossipsubMember,
    of.CovertFlashAttack: gs.GossipsubMember,
    of.IHaveLiarAttack: gs.GossipsubIHaveLiar,
    of.GreedyAttack: gs.GossipsubGreedy,
}
"""The same for gossipsub, which has no trees, JOINs, shuffles or near links to attack."""

ROUTERS: dict[str, dict[Any, Any]] = {"episub": EPISUB, "gossipsub": GOSSIPSUB}
"""The same for each router that can be attacked."""


def check(router: str, adversaries: tuple[of.AnyAttack, ...]) -> None:
    """Raise ScenarioError where one of `adversaries` is none for `router`."""
    kinds = ROUTERS.get(router, {})
    for index, settings in enumerate(adversaries):
        if type(settings) not in kinds:
            known = ", ".join(kind.kind for kind in kinds) or "none"
            raise ScenarioError(
                f"adversaries[{index}].kind = {settings.kind!r}; allowed with {router}: {known}"
            )


def _beside(victims: tuple[int, ...], candidates: list[int]) -> list[int]:
    """`candidates` in the order of how near they are to one of `victims` on a ring."""
    places = Places(TOPIC_NAME, MembershipParams().rings)
    near = [places.nearest(victim, candidates, len(candidates)) for victim in victims]
    return list(dict.fromkeys(node for of_each in zip(*near, strict=True) for node in of_each))


class Cast:
    """The hostile nodes of a run, drawn with `rng` among `nodes` but for `spared` ones."""

    def __init__(
        self,
        adversaries: tuple[of.AnyAttack, ...],
        router: str,
        nodes: int,
        sources: tuple[int, ...],
        spared: tuple[int, ...],
        rng: Random,
    ) -> None:
        taken = dict.fromkeys((*sources, *spared))
        candidates = [node for node in range(nodes) if node not in taken]
        rng.shuffle(candidates)
        chosen: list[tuple[of.AnyAttack, list[int], tuple[int, ...]]] = []
        for settings in adversaries:
            victims = tuple(candidates[: settings.victims])
            left = candidates[settings.victims :]
            count = min(len(left), settings.count or round(settings.share * nodes))
            if settings.ground:
                left = _beside(victims, left)
            chosen.append((settings, sorted(left[:count]), victims))
            candidates = [*left[count:], *victims]
        honest = tuple(sorted((*taken, *candidates)))
        kinds = ROUTERS.get(router, {})
        self.rings: list[Ring] = []
        self._part: dict[int, tuple[Any, Ring]] = {}
        for settings, members, victims in chosen:
            ring = Ring(settings, tuple(members), honest, sources, victims)
            self.rings.append(ring)
            self._part.update(dict.fromkeys(members, (kinds[type(settings)], ring)))
        self.victims = tuple(victim for ring in self.rings for victim in ring.victims)
        self.begins = min((ring.settings.at for ring in self.rings), default=float("inf"))
        """When the first of them strikes."""

    def __contains__(self, node: object) -> bool:
        return node in self._part

    def __bool__(self) -> bool:
        return bool(self._part)

    def comes(self, node: int) -> float:
        """When `node` comes up; 0 if that isn't said."""
        part = self._part.get(node)
        return part[1].settings.comes if part is not None else 0.0

    def prefixes(self) -> dict[Any, Any]:
        """The address prefix of each node that shares one."""
        return {
            member: (index, position % ring.settings.prefixes)
            for index, ring in enumerate(self.rings)
            if ring.settings.prefixes
            for position, member in enumerate(ring.members)
        }

    def make(self, node: int, wrap: Callable[[Any], Any], *arguments: Any) -> Any:
        """The hostile node `node`: `wrap` of its class, called with `arguments` and its ring."""
        kind, ring = self._part[node]
        return wrap(kind)(*arguments, ring)
