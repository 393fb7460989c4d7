"""The faults that a scenario can have, by time and victim."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FaultKind(StrEnum):
    """What is done to the victims; everything ends after `lasts` seconds."""

    KILL = "kill"
    """kill -9, and a start with the same key and store at the end."""
    STOP = "stop"
    """SIGSTOP, and SIGCONT at the end."""
    CUT = "cut"
    """No packet passes between the victims and the others, and nobody gets a FIN."""
    ONE_WAY = "one-way"
    """No packet passes from the victims to the others; the way back is open."""
    FLAP = "flap"
    """A cut that comes and goes; `amount` is the period in seconds."""
    SLOW = "slow"
    """The victims' links carry `amount` kbit/s each way."""
    MOVE = "move"
    """The victims change to another address, and back at the end: what their connections carry is
    lost, and nobody gets a FIN."""
    CLOCK = "clock"
    """The victims' wall clocks jump by `amount` seconds, and back at the end."""
    DISK = "disk"
    """No room is left where the victims write."""
    DESCRIPTORS = "descriptors"
    """The victims can open `amount` files and sockets more."""
    MEMORY = "memory"
    """The victims can get `amount` MiB of address space more."""


DEFAULT_AMOUNT: dict[FaultKind, float] = {
    FaultKind.FLAP: 4.0,
    FaultKind.SLOW: 256.0,
    FaultKind.CLOCK: 3600.0,
    FaultKind.DESCRIPTORS: 2.0,
    FaultKind.MEMORY: 8.0,
}

SEPARATING = frozenset({FaultKind.CUT, FaultKind.ONE_WAY, FaultKind.FLAP})
"""Kinds that keep packets of some hosts from others."""
NETWORK = SEPARATING | {FaultKind.SLOW, FaultKind.MOVE}
"""Kinds that need namespaces."""
SILENCING = frozenset({FaultKind.KILL, FaultKind.STOP})
"""Kinds during which a victim does nothing at all."""
STARVING = frozenset({FaultKind.DESCRIPTORS, FaultKind.MEMORY})
"""Kinds that a process may not survive, or not keep its links through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One fault. Raises ValueError for what can't be."""

    kind: FaultKind
    at: float
    """Seconds since the begin of the run."""
    lasts: float
    """Seconds."""
    hosts: tuple[int, ...]
    """The victims."""
    others: tuple[int, ...] = ()
    """The hosts that they are kept from; empty: all that are no victims."""
    amount: float = 0.0
    """See `FaultKind`; 0 takes the default."""

    def __post_init__(self) -> None:
        if not self.hosts:
            raise ValueError(f"a fault of kind {self.kind} has no hosts")
        if self.at < 0 or self.lasts <= 0:
            raise ValueError(f"a fault of kind {self.kind} ends before it begins")
        if set(self.hosts) & set(self.others):
            raise ValueError(f"a fault of kind {self.kind} has hosts that are `others` too")
        if not self.amount:
            object.__setattr__(self, "amount", DEFAULT_AMOUNT.get(self.kind, 0.0))

    @property
    def end(self) -> float:
        return self.at + self.lasts

    def far_side(self, hosts: int) -> tuple[int, ...]:
        """The hosts that the victims are kept from, among hosts 0 to `hosts` - 1."""
        return self.others or tuple(h for h in range(hosts) if h not in self.hosts)

    def text(self) -> str:
        """For people."""
        victims = ", ".join(map(str, self.hosts))
        amount = f" ({self.amount:g})" if self.amount else ""
        return f"{self.kind}{amount} of {victims} from {self.at:.0f} s to {self.end:.0f} s"
