"""Links that newcomers can't take (E06, E10, E13, E16, E18)."""

from __future__ import annotations

from typing import Any

from episub_router.protocol import events as ev
from episub_router.protocol.hyparview.stabilization import LIST_TIMEOUT
from episub_router.protocol.hyparview.views.active import MAX_ON_WISH, NEED_BELIEVED
from episub_router.protocol.messages import Join, LinkKind, Neighbor, NeighborRole
from tests.protocol.helpers import Member, params, request, sent

HONEST = [f"honest{n}" for n in range(7)]


def full(**changed: Any) -> Member:
    """A member with A links, of which its peers say that they can spare them."""
    member = Member(membership=params(**changed))
    for n, peer in enumerate(HONEST):
        kind = LinkKind.RANDOM if n < member.params.random_links else LinkKind.NEAR
        member.link(peer, kind, links=9, random_links=6)
        member.handle(ev.RttMeasured(peer, 0.1))
    return member


def ask(member: Member, peers: list[str]) -> None:
    """Each of `peers` asks by a JOIN that must be accepted and by a request, saying that it has one
    link, and comes back with the same words whenever it is queried."""
    for peer in peers:
        member.receive(peer, Join(peer, 0))
        member.receive(peer, request(links=1, random_links=0))


def stabilize(member: Member, liars: list[str]) -> None:
    """Let a stabilisation pass, in which all neighbours answer."""
    member.wait(member.params.stabilize_interval)
    for peer in list(member.active):
        poor = peer in liars
        said = Neighbor(NeighborRole.LIST, 1 if poor else 9, random_links=0 if poor else 6)
        member.receive(peer, said)
    member.wait(LIST_TIMEOUT)


def test_the_oldest_random_links_outlast_any_number_of_claims() -> None:
    member = full()
    liars = [f"liar{n}" for n in range(60)]
    for n in range(20):
        ask(member, liars[3 * n : 3 * n + 3])
        assert len(member.active) <= member.params.active_size + MAX_ON_WISH
        stabilize(member, liars)
    assert set(HONEST[: member.params.random_links // 2]) <= member.active


def test_who_asks_is_kept_beyond_a_for_a_while_only() -> None:
    """A neighbour taken in for its need is given up for being too many once it has had time to
    find others, whatever it says; until then it isn't."""
    member = full()
    for peer in HONEST:
        member.receive(peer, Neighbor(NeighborRole.LIST, 7, random_links=4))
    ask(member, ["newcomer"])
    assert len(member.active) == member.params.active_size + 1
    waited = 0.0
    while "newcomer" in member.active:
        assert waited < NEED_BELIEVED + 3 * member.params.stabilize_interval
        waited += LIST_TIMEOUT / 2
        for peer, _ in sent(member.wait(LIST_TIMEOUT / 2), Neighbor):
            poor = peer == "newcomer"
            said = Neighbor(NeighborRole.LIST, 1 if poor else 7, random_links=0 if poor else 4)
            member.receive(peer, said)
    assert waited >= NEED_BELIEVED / 2
    assert member.active == set(HONEST)


def test_nearness_doesn_t_end_an_old_random_link() -> None:
    member = full()
    for n in range(6):
        ask(member, [f"r{n}"])
    for n in range(40):
        member.receive(f"near{n}", request(9, LinkKind.NEAR, 6))
        member.handle(ev.RttMeasured(f"near{n}", 0.001 / (n + 1)))
    assert set(HONEST[: member.params.random_links // 2]) <= member.active
