"""How many dials others can make this node do, and to which peers and addresses."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator

from multiaddr import Multiaddr

from episub_router.util.params import Rate
from episub_router.util.token_buckets import TokenBuckets

PER_INFORMANT = Rate(0.5, 32)
"""Dials to peers that one informant named; chosen: three times the links that a joining node
makes."""

PER_HOST = Rate(1, 64)
"""Dials to one IP address or name on others' word; chosen: many nodes may share one."""

PER_ADDRESS = Rate(1 / 15, 4)
"""Dials to one address with its port; chosen: a peer that is down is tried four times in 15 s."""

_REMEMBERED = 4096
"""Informants, hosts, and addresses; chosen: as the records in the address book."""


class DialBudget:
    """Token buckets by informant and by target, for dials to peers that we know on others' word.

    Signed records prove their signer, and not that anybody is at the addresses in there: a
    hostile peer could have all others dial a third party. A dial that finds its peer is free.
    """

    def __init__(self) -> None:
        self._informants: TokenBuckets[Hashable] = TokenBuckets(PER_INFORMANT, _REMEMBERED)
        self._hosts: TokenBuckets[Hashable] = TokenBuckets(PER_HOST, _REMEMBERED)
        self._addresses: TokenBuckets[Hashable] = TokenBuckets(PER_ADDRESS, _REMEMBERED)

    def take(self, informant: bytes, addresses: Iterable[Multiaddr], now: float) -> bool:
        """Whether a dial to `addresses` is within every budget; if so, it is charged."""
        charged = list(self._buckets(informant, addresses))
        allowed = all(buckets.has(key, now) for buckets, key in charged)
        if allowed:
            for buckets, key in charged:
                buckets.spend(key, now)
        return allowed

    def give_back(self, informant: bytes, addresses: Iterable[Multiaddr], now: float) -> None:
        """That dial found its peer."""
        for buckets, key in self._buckets(informant, addresses):
            buckets.spend(key, now, -1)

    def _buckets(
        self, informant: bytes, addresses: Iterable[Multiaddr]
    ) -> Iterator[tuple[TokenBuckets[Hashable], Hashable]]:
        yield self._informants, informant
        parts = list(map(_parts, addresses))
        for host in dict.fromkeys(part[:2] for part in parts):
            yield self._hosts, host
        for address in dict.fromkeys(parts):
            yield self._addresses, address


def one_of_each_host(addresses: Iterable[Multiaddr]) -> list[Multiaddr]:
    """The first of those that have the same IP address or name."""
    first: dict[tuple[str, ...], Multiaddr] = {}
    for address in addresses:
        first.setdefault(_parts(address)[:2], address)
    return list(first.values())


def _parts(address: Multiaddr) -> tuple[str, ...]:
    """As ("ip4", "10.0.0.1", "tcp", "4001")."""
    return tuple(str(address).split("/")[1:5])
