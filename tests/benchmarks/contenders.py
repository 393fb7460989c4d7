"""The routers that are compared, and how each gets its links."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import cycle
from random import Random

from libp2p.abc import IPubsubRouter
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V11, GossipSub

from episub_router import EpisubRouter
from tests.hosts import bounded_gossipsub

Links = Sequence[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Contender:
    """One router in one configuration. `links` are (dialler, listener) pairs of host numbers."""

    name: str
    description: str
    router: Callable[[], IPubsubRouter]
    links: Callable[[int, int], Links]
    resilient: bool = False
    """Whether its hosts have a ResilientPubsub, which the README names for EpisubRouter."""
    links_within: float = 0.0
    """Seconds over which its links are made."""


def random_graph(hosts: int, seed: int) -> Links:
    """A connected random graph with 5 links per host, so that each has about 10 neighbours.

    The same for every router; all pairs if there are too few hosts for that.
    """
    rng = Random(seed)
    pairs = [(a, b) for b in range(hosts) for a in range(b)]
    ring = [(number - 1, number) for number in range(1, hosts)]
    others = sorted(set(pairs) - set(ring))
    rng.shuffle(others)
    return [*ring, *others[: 5 * hosts - len(ring)]]


def star(hosts: int, seed: int) -> Links:
    """Every host knows host 0 only."""
    return [(number, 0) for number in range(1, hosts)]


def _default_gossipsub() -> GossipSub:
    return GossipSub(
        [PROTOCOL_ID_V11],
        degree=6,
        degree_low=4,
        degree_high=12,
        heartbeat_interval=1,
        spam_protection_enabled=False,
    )


def _bounded_gossipsub() -> GossipSub:
    return bounded_gossipsub(PROTOCOL_ID_V11)


def _episub() -> EpisubRouter:
    return EpisubRouter(seed=None)


def _alternating(*routers: Callable[[], IPubsubRouter]) -> Callable[[], IPubsubRouter]:
    turns = cycle(routers)
    return lambda: next(turns)()


CONTENDERS = {
    contender.name: contender
    for contender in (
        Contender(
            "gossipsub-defaults",
            "GossipSub, degree 6/4/12, heartbeat 1 s, spam protection off, else its defaults",
            _default_gossipsub,
            random_graph,
        ),
        Contender(
            "gossipsub-bounded",
            "the same with adaptive_gossip_enabled=False and scorer=None: "
            "the mesh keeps within its bounds",
            _bounded_gossipsub,
            random_graph,
        ),
        Contender(
            "gossipsub-joining",
            "gossipsub-defaults, with its links made over 30 s, as Episub's hosts make theirs",
            _default_gossipsub,
            random_graph,
            links_within=30.0,
        ),
        Contender(
            "episub",
            "EpisubRouter and ResilientPubsub with their defaults; every host was connected to "
            "host 0 and the router dialled the rest",
            _episub,
            star,
            resilient=True,
        ),
        Contender(
            "half-and-half-defaults",
            "every other host of gossipsub-defaults has an EpisubRouter instead",
            _alternating(_episub, _default_gossipsub),
            random_graph,
        ),
        Contender(
            "half-and-half-bounded",
            "every other host of gossipsub-bounded has an EpisubRouter instead",
            _alternating(_episub, _bounded_gossipsub),
            random_graph,
        ),
    )
}
