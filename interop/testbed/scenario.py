"""A scenario: hosts, traffic, faults and what is promised; read from TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from episub_router.sim.strict import read
from interop.testbed.faults import NETWORK, Fault
from interop.testbed.schedule import RandomFaults, draw

_JOINING = 180.0

KINDS = ("episub", "sds", "py", "go", "rust", "js", "episub-peer")
"""`episub` is `episub node`; `sds` a channel over it; the others are the peers of interop/."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """What is published."""

    rate: float = 2.0
    """Messages a second, over all hosts in turn."""
    sizes: tuple[int, ...] = (128,)
    """Bytes of a message, in turn."""
    publishers: tuple[int, ...] = ()
    """Hosts that publish; empty: all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Promises:
    """The bounds that the checker holds a run to, in seconds unless stated otherwise."""

    deadline: float = 20.0
    """Within which a message reaches every node that is up and not cut off meanwhile."""
    heal: float = 20.0
    """After the end of a fault, within which everything is as if it hadn't been."""
    notice: float = 0.0
    """After the begin of a cut or a kill, within which nobody counts a silent peer as a
    neighbour; 0: not checked."""
    notice_stop: float = 0.0
    """The same of a stop, in which the peer's kernel goes on answering."""
    wait: float = 5.0
    """That publishing waits at most."""
    first: float = 5.0
    """Within which the first message comes to a host that has moved."""
    late: float = 30.0
    """Before the end of a cut: what is published then still crosses, within `heal`."""
    grace: float = 2.0
    """That a publisher must live on for its message to count."""
    slowdown: float = 0.0
    """How many times the calm p99 the latency of others may be once a fault has been noticed;
    0: not checked."""
    descriptors: int = 16
    """How many more a process may hold at the end than any did before the first fault."""
    threads: int = 8
    """The same of threads."""
    memory: float = 40.0
    """The same of resident memory, in MiB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """What to run. Raises ValueError for what can't be."""

    name: str
    kinds: tuple[str, ...]
    """What runs on each host; one of `KINDS`."""
    duration: float
    """Seconds, from when all hosts have joined."""
    joining: float = _JOINING
    """Seconds that all hosts may take to start, and again to be one overlay; a busy machine needs
    them."""
    traffic: Traffic = field(default_factory=Traffic)
    promises: Promises = field(default_factory=Promises)
    faults: tuple[Fault, ...] = ()
    traces: bool = False
    """Whether the nodes write their own traces, too (docs/trace.md)."""
    seed: int = 0

    def __post_init__(self) -> None:
        if not 2 <= len(self.kinds) <= 200:
            raise ValueError(f"a scenario has 2 to 200 hosts, not {len(self.kinds)}")
        for kind in self.kinds:
            if kind not in KINDS:
                raise ValueError(f"there is no kind {kind!r}, but {', '.join(KINDS)}")
        hosts = range(len(self.kinds))
        for fault in self.faults:
            if any(h not in hosts for h in (*fault.hosts, *fault.others)):
                raise ValueError(f"{fault.text()}: there is no such host")
            if fault.end > self.duration:
                raise ValueError(f"{fault.text()}: the run lasts only {self.duration:g} s")
        if any(h not in hosts for h in self.traffic.publishers):
            raise ValueError("there is no such publisher")

    @property
    def hosts(self) -> int:
        return len(self.kinds)

    @property
    def needs_network(self) -> bool:
        return any(fault.kind in NETWORK for fault in self.faults)

    @property
    def calm_after(self) -> float:
        """Seconds before the end at which publishing ends, so that everything can arrive."""
        return max(0.0, self.duration - self.promises.deadline)


def load(path: Path, *, seed: int | None = None, kind: str | None = None) -> Scenario:
    """The scenario in the file at `path`; `seed` and `kind` take the place of its own.

    Raises OSError, and ValueError for what is wrong in it.
    """
    try:
        return parse(tomllib.loads(path.read_text()), seed=seed, kind=kind)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def parse(
    table: Mapping[str, Any], *, seed: int | None = None, kind: str | None = None
) -> Scenario:
    """The scenario in a table as docs/testbed.md describes it. Raises ValueError."""
    table = dict(table)
    kinds = _kinds(table, kind)
    own_seed = int(table.pop("seed", 0)) if seed is None else seed
    table.pop("seed", None)
    duration = float(table.pop("duration", 60.0))
    joining = float(table.pop("joining", _JOINING))
    entries = enumerate(table.pop("fault", []))
    faults = [read(Fault, entry, f"fault[{number}]") for number, entry in entries]
    promises = read(Promises, table.pop("promises", {}), "promises")
    if "random" in table:
        random = read(RandomFaults, table.pop("random"), "random")
        faults += draw(random, len(kinds), duration - promises.heal - promises.deadline, own_seed)
    traffic = read(Traffic, table.pop("traffic", {}), "traffic")
    name, traces = str(table.pop("name", "unnamed")), bool(table.pop("traces", False))
    if table:
        raise ValueError(f"nothing is called {', '.join(sorted(table))}")
    return Scenario(
        name=name,
        kinds=kinds,
        duration=duration,
        joining=joining,
        traffic=traffic,
        promises=promises,
        faults=tuple(sorted(faults, key=lambda fault: fault.at)),
        traces=traces,
        seed=own_seed,
    )


def _kinds(table: dict[str, Any], kind: str | None) -> tuple[str, ...]:
    """`hosts` and `kind`, or `kinds` with a number for each."""
    several = table.pop("kinds", None)
    count = int(table.pop("hosts", 0 if several else 8))
    own = str(table.pop("kind", "episub"))
    if several is None:
        return (kind or own,) * count
    found = tuple(name for name, number in several.items() for _ in range(int(number)))
    return (kind,) * len(found) if kind else found
