"""Settings of a scenario's adversaries: `[[adversaries]]`, one table for each attack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

from episub_router.sim.strict import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class Attack:
    """What every kind has: knobs, beside what the kind does. The hostile nodes are drawn from the
    seed among all nodes but the fixed sources, the victims, and the contacts that all nodes know.
    """

    kind: ClassVar[str] = ""
    early_copies: ClassVar[int] = 0
    """`copies` until they strike."""
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
    prefixes: int = setting(0, least=0)
    """Address prefixes that all of them have together; 0: each its own, as honest nodes have."""
    victims: int = setting(0, least=0)
    """Honest nodes that the attack aims at; 0: all."""
    ground: bool = False
    """Whether their ids were searched for: they are next to the victims on the rings."""
    withheld: float = setting(0.0, least=0, most=1)
    """Share of the messages that they don't forward; those that know each other leave out the
    same."""
    sources: int = setting(0, least=0)
    """They withhold messages of the first `sources` fixed sources only; 0: of all."""
    delay: float = setting(0.0, least=0, most=30)
    """Seconds by which payloads leave late, pushed ones and those that were asked for."""
    relink: float = setting(0.0, least=0)
    """Seconds after which they close all links and link anew; 0: never."""
    cost: float = setting(1.0, least=0, most=1)
    """What ways through them cost, as their ROOTs say: share of the true cost."""
    hops: int = setting(0, least=0, most=64)
    """The hop count that their announcements and payloads name; 0: the true one."""
    rtt: float = setting(1.0, least=0, most=100)
    """Round trips to them seem to take this share of their time, as with a helper near each node
    that answers for them."""
    copies: int = setting(0, least=0, most=100)
    """How often they push each message to all neighbours, whatever these want; none that they
    withhold."""
    invents: int = setting(0, least=0, most=1000)
    """Sources that each of them makes up, and publishes messages of."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CensorAttack(Attack):
    """Takes payloads and withholds them; otherwise looks alive. With other knobs, whatever these
    say and no more."""

    kind: ClassVar[str] = "censor"
    withheld: float = setting(1.0, least=0, most=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class CovertFlashAttack(CensorAttack):
    """Pushes each message to all neighbours at once, so that many choose it as their parent, and
    from `at` on withholds them."""

    kind: ClassVar[str] = "covert-flash"
    early_copies: ClassVar[int] = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class IHaveLiarAttack(CensorAttack):
    """Announces each message to all neighbours with hops 1 as soon as it knows the id, those that
    it withholds, too."""

    kind: ClassVar[str] = "ihave-liar"


@dataclass(frozen=True, slots=True, kw_only=True)
class HijackAttack(IHaveLiarAttack):
    """As `ihave-liar`, and PRUNEs all that would push to it, so that it is chosen as the
    parent (E38)."""

    kind: ClassVar[str] = "hijack"


@dataclass(frozen=True, slots=True, kw_only=True)
class RootLiarAttack(CensorAttack):
    """Passes each ROOT on as if the source were its neighbour, sooner than it could have come.
    `rounds` is added to the round that the source counts, with a proof of the liar's own."""

    kind: ClassVar[str] = "root-liar"
    cost: float = setting(0.0, least=0, most=1)
    hops: int = setting(1, least=0, most=64)
    rounds: int = setting(0, least=0, most=1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class GreedyAttack(CensorAttack):
    """Asks all nodes that it knows, or its victims, for links again and again, with JOINs of TTL 0
    and requests of one that has a single link, holds what it gets, and forwards nothing."""

    kind: ClassVar[str] = "greedy"
    knows: Literal["nobody", "each-other", "everybody"] = "everybody"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinCaptureAttack(CensorAttack):
    """Accepts each JOIN that it sees, together with all members of its ring, and names them alone
    to those that ask for nodes."""

    kind: ClassVar[str] = "join-capture"


@dataclass(frozen=True, slots=True, kw_only=True)
class PoisonAttack(Attack):
    """Names its ring alone wherever it names peers, `invented` of them peers that don't exist, and
    sends each neighbour a SHUFFLE a second."""

    kind: ClassVar[str] = "poison"
    invented: float = setting(0.5, least=0, most=1)


AnyAttack: TypeAlias = (
    CensorAttack
    | CovertFlashAttack
    | IHaveLiarAttack
    | HijackAttack
    | RootLiarAttack
    | GreedyAttack
    | JoinCaptureAttack
    | PoisonAttack
)
