"""How many dials others can make this node do, and to which peers and addresses."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from multiaddr import Multiaddr

from episub_router.util.params import Rate
from episub_router.util.token_buckets import TokenBuckets

BUDGET = Rate(0.5, 32)
"""Tokens a second, and at once, of each informant, host and address. Chosen: one informant's are
more than the dials of a joining node."""

PER_INFORMANT, PER_HOST, PER_ADDRESS = 2, 0.5, 8
"""Tokens for each address that is tried: of the one that named it, so that one hostile peer makes
16 connections to a third party at once; of its IP address or name, which many nodes may share; of
that with the port, where one that is down is dialled four times in 16 s."""

_REMEMBERED = 3 * 4096
"""Informants, hosts, and addresses; chosen: as the records in the address book."""


class DialBudget:
    """Token buckets by informant and by target, for dials to peers that nobody but they or others
    say where they are.

    Signed records prove their signer, and not that anybody is at the addresses in there: a
    hostile peer could have all others dial a third party. A dial that finds its peer is free.
    """

    def __init__(self) -> None:
        self._buckets: TokenBuckets[Hashable] = TokenBuckets(BUDGET, _REMEMBERED)

    def take(self, informant: bytes, addresses: Iterable[Multiaddr], now: float) -> bool:
        """Whether a dial to `addresses` is within every budget; if so, it is charged."""
        costs = _costs(informant, addresses)
        allowed = all(self._buckets.has(key, now, cost) for key, cost in costs.items())
        if allowed:
            for key, cost in costs.items():
                self._buckets.spend(key, now, cost)
        return allowed

    def give_back(self, informant: bytes, addresses: Iterable[Multiaddr], now: float) -> None:
        """That dial found its peer."""
        for key, cost in _costs(informant, addresses).items():
            self._buckets.spend(key, now, -cost)


def _costs(informant: bytes, addresses: Iterable[Multiaddr]) -> dict[Hashable, float]:
    costs: dict[Hashable, float] = {informant: 0.0}
    for parts in map(_parts, addresses):
        costs |= {parts[:2]: PER_HOST, parts: PER_ADDRESS}
        costs[informant] += PER_INFORMANT
    return costs


def one_of_each_host(addresses: Iterable[Multiaddr]) -> list[Multiaddr]:
    """The first of those that have the same IP address or name."""
    first: dict[tuple[str, ...], Multiaddr] = {}
    for address in addresses:
        first.setdefault(_parts(address)[:2], address)
    return list(first.values())


def _parts(address: Multiaddr) -> tuple[str, ...]:
    """As ("ip4", "10.0.0.1", "tcp", "4001")."""
    return tuple(str(address).split("/")[1:5])
