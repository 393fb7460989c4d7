"""How many dials others can make this node do, and to which peers and addresses."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from multiaddr import Multiaddr

from episub_router.util.params import Rate

PER_TELLER = Rate(0.5, 32)
"""Dials to peers that one teller named; ours: three times the links that a joining node makes."""

PER_HOST = Rate(1, 64)
"""Dials to one IP address or name on others' word; ours: many nodes may share one."""

PER_ADDRESS = Rate(1 / 15, 4)
"""Dials to one address with its port; ours: a peer that is down is tried four times in 15 s."""

_REMEMBERED = 4096
"""Tellers and addresses; ours: as the records in the address book."""


class DialBudget:
    """Token buckets by teller and by target, for dials to peers that we know on others' word.

    Signed records prove their signer, and not that anybody is at the addresses in there: a
    hostile peer could have all others dial a third party. A dial that finds its peer is free.
    """

    def __init__(self) -> None:
        self._left: dict[Hashable, tuple[float, float]] = {}
        """What is left by bucket, and when that was, the one used longest ago first."""

    def take(self, teller: bytes, addresses: Iterable[Multiaddr], now: float) -> bool:
        """Whether a dial to `addresses` is within every budget; if so, it is charged."""
        buckets = _buckets(teller, addresses)
        if any(self._look(key, rate, now) < 1 for key, rate in buckets.items()):
            return False
        self._add(buckets, -1, now)
        return True

    def give_back(self, teller: bytes, addresses: Iterable[Multiaddr], now: float) -> None:
        """That dial found its peer."""
        self._add(_buckets(teller, addresses), 1, now)

    def _look(self, key: Hashable, rate: Rate, now: float) -> float:
        left, since = self._left.get(key, (float(rate.burst), now))
        return min(rate.burst, left + (now - since) * rate.per_second)

    def _add(self, buckets: dict[Hashable, Rate], tokens: int, now: float) -> None:
        for key, rate in buckets.items():
            left = min(rate.burst, self._look(key, rate, now) + tokens)
            self._left.pop(key, None)
            self._left[key] = (left, now)
            if len(self._left) > _REMEMBERED:
                del self._left[next(iter(self._left))]


def _buckets(teller: bytes, addresses: Iterable[Multiaddr]) -> dict[Hashable, Rate]:
    buckets: dict[Hashable, Rate] = {teller: PER_TELLER}
    for address in addresses:
        parts = str(address).split("/")  # "", "ip4", "10.0.0.1", "tcp", "4001", ...
        buckets["host", *parts[1:3]] = PER_HOST
        buckets["address", *parts[1:5]] = PER_ADDRESS
    return buckets
