"""Settings of a scenario's adversaries: `[[adversaries]]`, one table for each attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from episub_router.sim.strict import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """What every kind has. The hostile nodes are drawn from the seed among all nodes but the fixed
    sources, the victims, and the contacts that all nodes know."""

    kind: ClassVar[str] = ""
    share: float = setting(0.2, above=0, most=0.9)
    """Of the scenario's nodes."""
    count: int = setting(0, least=0)
    """Of nodes, in place of `share`."""
    comes: float = setting(0.0, least=0)
    """Seconds at which they come up, all at once; 0: with the others."""
    at: float = setting(0.0, least=0)
    """Seconds from which on they are hostile. Until then they behave."""
    knows: Literal["nobody", "each-other", "everybody"] = "each-other"
    """"each-other": what one learns all know at once, and they name each other; "everybody":
    they can dial all honest nodes, too."""
    withholds: bool = False
    """Whether they forward and announce no message, beside what their kind does."""
    prefixes: int = setting(0, least=0)
    """Address prefixes that all of them have together; 0: each its own, as honest nodes have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CensorAttack(Attack):
    """Takes payloads and forwards and announces none; otherwise looks alive."""

    kind: ClassVar[str] = "censor"


@dataclass(frozen=True, slots=True, kw_only=True)
class CovertCensorAttack(Attack):
    """Forwards and announces all but the messages of the first `sources` fixed sources."""

    kind: ClassVar[str] = "covert-censor"
    sources: int = setting(1, least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CovertFlashAttack(Attack):
    """Pushes each message to all neighbours at once, so that many choose it as their parent, and
    from `at` on forwards and announces nothing."""

    kind: ClassVar[str] = "covert-flash"


@dataclass(frozen=True, slots=True, kw_only=True)
class IHaveLiarAttack(Attack):
    """Announces each message to all neighbours as soon as it knows the id, and never delivers."""

    kind: ClassVar[str] = "ihave-liar"


@dataclass(frozen=True, slots=True, kw_only=True)
class HijackAttack(Attack):
    """PRUNEs all that would push to it, announces each message with hops 1 before it has come, so
    that it is chosen as the parent (E38), and never delivers."""

    kind: ClassVar[str] = "hijack"


@dataclass(frozen=True, slots=True, kw_only=True)
class RootLiarAttack(Attack):
    """Passes each ROOT on as if the source were its neighbour, sooner than it could have come, and
    forwards nothing. `rounds` is added to the round that the source counts."""

    kind: ClassVar[str] = "root-liar"
    rounds: int = setting(0, least=0, most=1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyAttack(Attack):
    """Asks all nodes that it knows for links again and again, with JOINs of TTL 0 and requests of
    one that has a single link, holds what it gets, and forwards nothing."""

    kind: ClassVar[str] = "greedy"
    knows: Literal["nobody", "each-other", "everybody"] = "everybody"


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimAttack(GreedyAttack):
    """As `GreedyAttack`, aimed at `victims` honest nodes alone."""

    kind: ClassVar[str] = "victim"
    count: int = setting(20, least=0)
    victims: int = setting(1, least=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinCaptureAttack(Attack):
    """Accepts each JOIN that it sees, together with all members of its ring, and names them alone
    to those that ask for nodes."""

    kind: ClassVar[str] = "join-capture"
    withholds: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonAttack(Attack):
    """Names its ring alone wherever it names peers, `invented` of them peers that don't exist, and
    sends each neighbour a SHUFFLE a second."""

    kind: ClassVar[str] = "poison"
    invented: float = setting(0.5, least=0, most=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicatesAttack(Attack):
    """Pushes each message to all neighbours, `copies` times each."""

    kind: ClassVar[str] = "duplicates"
    copies: int = setting(3, least=1, most=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class RttLiarAttack(Attack):
    """Round trips to it seem to take `factor` of their time, as with a helper near each node that
    answers for it, and ways through it nothing at all."""

    kind: ClassVar[str] = "rtt-liar"
    factor: float = setting(0.1, least=0, most=100)
    withholds: bool = True


AnyAttack: TypeAlias = (
    CensorAttack
    | CovertCensorAttack
    | CovertFlashAttack
    | IHaveLiarAttack
    | HijackAttack
    | RootLiarAttack
    | GreedyAttack
    | VictimAttack
    | JoinCaptureAttack
    | PoisonAttack
    | DuplicatesAttack
    | RttLiarAttack
)
