"""Random faults from a seed: the same seed draws the same ones."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from episub_router.util.params import check_numbers, param
from interop.testbed.faults import NETWORK, SILENCING, STARVING, Fault, FaultKind

_KINDS = (
    FaultKind.KILL,
    FaultKind.STOP,
    FaultKind.CUT,
    FaultKind.ONE_WAY,
    FaultKind.FLAP,
    FaultKind.SLOW,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomFaults:
    """What to draw from. Raises ValueError for numbers that make no sense."""

    every: float = param(30.0, "s", "ours: mean pause between the begins of faults")
    shortest: float = param(5.0, "s", "ours: below, TCP alone bridges it")
    longest: float = param(60.0, "s", "ours: above, connections time out")
    share: float = param(0.34, "share", "ours: of the hosts that one fault meets; a cut: half")
    lanes: int = param(2, "faults", "ours: how many overlap at most")
    kinds: tuple[FaultKind, ...] = _KINDS

    def __post_init__(self) -> None:
        check_numbers(self)
        if self.shortest > self.longest:
            raise ValueError("shortest is above longest")


def draw(spec: RandomFaults, hosts: int, until: float, seed: int) -> list[Fault]:
    """Faults of which the last has ended `until` seconds after the begin of the run.

    A host has one fault of its own at a time, and one fault at a time separates hosts, so that
    what the checker may expect stays plain.
    """
    rng = Random(seed)
    drawn: list[Fault] = []
    for _ in range(spec.lanes):
        at = rng.uniform(0.3, 1.0) * spec.every
        while True:
            lasts = rng.uniform(spec.shortest, spec.longest)
            if at + lasts > until:
                break
            fault = _one(spec, hosts, at, lasts, rng)
            if not any(_clash(fault, other) for other in drawn):
                drawn.append(fault)
            at += lasts + rng.expovariate(1 / spec.every)
    return sorted(drawn, key=lambda fault: fault.at)


def _one(spec: RandomFaults, hosts: int, at: float, lasts: float, rng: Random) -> Fault:
    kind = rng.choice(spec.kinds)
    most = max(1, int(hosts * spec.share))
    if kind == FaultKind.CUT:
        count = rng.choice((1, hosts // 2))
    elif kind in SILENCING:
        count = rng.randint(1, most)
    else:
        count = 1
    victims = rng.sample(range(hosts), count)
    others: tuple[int, ...] = ()
    if kind == FaultKind.ONE_WAY and rng.random() < 0.5:
        rest = [host for host in range(hosts) if host not in victims]
        others = (rng.choice(rest),)
    amount = rng.choice((-3600.0, 3600.0)) if kind == FaultKind.CLOCK else 0.0
    return Fault(
        kind=kind,
        at=round(at, 1),
        lasts=round(lasts, 1),
        hosts=tuple(sorted(victims)),
        others=others,
        amount=amount,
    )


def _clash(one: Fault, other: Fault) -> bool:
    if one.end < other.at or other.end < one.at:
        return False
    if one.kind in NETWORK and other.kind in NETWORK:
        return True
    own = SILENCING | STARVING
    return one.kind in own and other.kind in own and bool(set(one.hosts) & set(other.hosts))
