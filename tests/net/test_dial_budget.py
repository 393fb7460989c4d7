"""Others can make this node dial so often, and no one target so often."""

from __future__ import annotations

from itertools import chain

import pytest
from multiaddr import Multiaddr

from episub_router.net.connections.dial_budget import (
    BUDGET,
    PER_ADDRESS,
    PER_HOST,
    PER_INFORMANT,
    DialBudget,
    one_of_each_host,
)


def address(host: int, port: int = 4001) -> list[Multiaddr]:
    return [Multiaddr(f"/ip4/10.0.0.{host}/tcp/{port}")]


def dials(budget: DialBudget, tries: list[tuple[bytes, list[Multiaddr]]], now: float) -> int:
    return sum(budget.take(informant, addresses, now) for informant, addresses in tries)


@pytest.mark.parametrize("each", [1, 2])
def test_an_informant_has_a_budget(each: int) -> None:
    """Of addresses, however they are divided among peers: 20 at once are the most for one."""
    budget = DialBudget()
    hosts = [*chain(*(address(n) for n in range(200)))]
    tries = [(b"hostile", hosts[n : n + each]) for n in range(0, 200, each)]
    assert dials(budget, tries, 0.0) * each == BUDGET.burst / PER_INFORMANT <= 20
    more = 20 * BUDGET.per_second / PER_INFORMANT
    assert more - each < dials(budget, tries[50:], 20.0) * each <= more
    assert budget.take(b"honest", address(1), 20.0)


def test_many_informants_cannot_aim_at_one_target() -> None:
    """The 636 connections to a third party, named by as many identities."""
    budget = DialBudget()
    one_port = [(b"%d" % n, address(1)) for n in range(636)]
    assert dials(budget, one_port, 0.0) == BUDGET.burst / PER_ADDRESS
    all_ports = [(b"%d" % n, address(2, n + 1)) for n in range(636)]
    assert dials(budget, all_ports, 0.0) == BUDGET.burst / PER_HOST
    assert budget.take(b"0", address(3), 0.0)


def test_dials_that_find_their_peer_are_free() -> None:
    budget = DialBudget()
    for n in range(200):
        assert budget.take(b"bootstrap", address(n % 2, 4000 + n), 0.0)
        budget.give_back(b"bootstrap", address(n % 2, 4000 + n), 0.0)


def test_of_one_host_one_address_is_dialled() -> None:
    addresses = [*address(1, 4001), *address(1, 4002), *address(2, 4003), *address(1, 4004)]
    assert one_of_each_host(addresses) == [*address(1, 4001), *address(2, 4003)]
