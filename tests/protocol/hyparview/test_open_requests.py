"""Which acceptances answer a request of ours (E09), and which were never asked for."""

from __future__ import annotations

from episub_router.protocol import events as ev
from episub_router.protocol.effects import DropReason
from episub_router.protocol.hyparview.joining.open_requests import (
    MAX_OPEN_REQUESTS,
    REQUEST_LIFETIME,
    OpenRequests,
)
from episub_router.protocol.messages import Disconnect, Join, LinkKind, Neighbor, NeighborRole
from tests.protocol.helpers import Member, accept, dials, drops, params, sent


def nonce_of(effects: list, peer: str) -> int:  # type: ignore[type-arg]
    """That of the request to `peer` among `effects`."""
    ((_, message),) = [each for each in sent(effects, Neighbor, Join) if each[0] == peer]
    assert message.nonce
    return int(message.nonce)


def refused(effects: list) -> bool:  # type: ignore[type-arg]
    return drops(effects) == [DropReason.UNSOLICITED] and sent(effects)[-1][1] == Disconnect()


def searching() -> tuple[Member, int]:
    """A member that has asked "p" for its last link, and the nonce of that."""
    member = Member("a", "b", "c", "d", "e", "f", passive=["p"])
    member.handle(ev.Connected("p"))
    return member, nonce_of(member.wait(12), "p")


def test_an_acceptance_of_a_peer_that_was_not_asked_is_undone() -> None:
    """E09: with the nonce of the request to another peer, with any, and with none."""
    member, nonce = searching()
    for peer, claimed in (("x", nonce), ("y", 12345), ("z", 0)):
        assert refused(member.receive(peer, accept(nonce=claimed)))
    member.receive("p", accept(nonce=nonce))
    assert member.active == set("abcdefp")


def test_requests_whose_time_is_over_take_no_room() -> None:
    requests = OpenRequests()
    for n in range(10):
        requests.open(f"p{n}", n)
    nonce = requests.open("x", REQUEST_LIFETIME + 4.5)
    assert len(requests) == 6
    assert requests.take("x", nonce, REQUEST_LIFETIME + 5)


def test_a_peer_that_ended_its_link_has_not_been_asked() -> None:
    """E09: it is on the list of those that aren't to be asked for a while, as if it had refused."""
    member = Member("a", "b", "c")
    member.receive("c", Disconnect())
    assert refused(member.receive("c", accept()))
    assert member.active == {"a", "b"}


def test_an_answer_belongs_to_one_request() -> None:
    """E09: by its nonce, where it has one; another one makes no link, nor does the same again."""
    member, nonce = searching()
    assert refused(member.receive("p", accept(nonce=nonce + 1)))
    member.receive("p", accept(nonce=nonce))
    assert "p" in member.active
    member.receive("p", Disconnect())
    assert refused(member.receive("p", accept(nonce=nonce)))


def test_an_answer_comes_too_late() -> None:
    member, nonce = searching()
    member.wait(REQUEST_LIFETIME)
    assert refused(member.receive("p", accept(nonce=nonce)))


def test_the_nonce_of_a_request_comes_back() -> None:
    """E10: at once, to a neighbour again, and after the RTT was measured."""
    asked = Neighbor(NeighborRole.REQUEST, 7, LinkKind.NEAR, random_links=5, nonce=77)
    member = Member("a")
    assert nonce_of(member.receive("p", asked), "p") == 77
    assert nonce_of(member.receive("p", asked), "p") == 77
    member = Member(*"abcde", membership=params())
    for peer in "fg":
        member.link(peer, LinkKind.NEAR, 7, 5)
        member.handle(ev.RttMeasured(peer, 0.1))
    member.receive("p", asked)
    assert nonce_of(member.handle(ev.RttMeasured("p", 0.01)), "p") == 77


def test_a_lost_neighbour_s_answer_has_the_nonce_of_our_join() -> None:
    """E02."""
    member = Member("a", "b", membership=params(recontact_interval=30.0))
    member.handle(ev.PeerDown("b"))
    member.wait(1)
    member.handle(ev.DialFailed("b"))
    assert dials(member.wait(40)) == ["b"]
    nonce = nonce_of(member.handle(ev.Connected("b")), "b")
    assert refused(member.receive("b", accept(nonce=nonce + 1)))
    member.receive("b", accept(nonce=nonce))
    assert "b" in member.active


def test_open_requests_are_bounded() -> None:
    asked = OpenRequests()
    nonces = {peer: asked.open(peer, 0.0) for peer in range(2 * MAX_OPEN_REQUESTS)}
    assert len(asked) == MAX_OPEN_REQUESTS
    assert not asked.take(0, nonces[0], 1.0)
    assert not asked.take(0, 0, 1.0)
    last = 2 * MAX_OPEN_REQUESTS - 1
    assert asked.take(last, nonces[last], 1.0)
