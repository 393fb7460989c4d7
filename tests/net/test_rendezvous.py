"""Asking discoveries for contacts: when, how much of the answer is used, and what goes wrong."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

import pytest
import trio
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo
from multiaddr import Multiaddr
from trio.testing import MockClock

from episub_router.net.address_book import MAX_FOUND, AddressBook
from episub_router.net.counters import Counters, Reason
from episub_router.net.discovery import rendezvous
from episub_router.net.discovery.rendezvous import Rendezvous
from episub_router.net.events import Alone, TopicEvents
from episub_router.net.tasks import Tasks

ME = b"me"
ADDRESS = Multiaddr("/ip4/192.0.2.1/tcp/4001")


def info(peer: bytes, *addresses: Multiaddr) -> PeerInfo:
    return PeerInfo(ID(peer), list(addresses) or [ADDRESS])


class Directory:
    """A discovery that answers as it is set to, and notes when it was asked."""

    def __init__(self, answer: Callable[[], Any] = list) -> None:
        self.answer = answer
        self.found: list[float] = []
        self.calls: list[str] = []

    async def find(self, topic: str) -> Sequence[PeerInfo]:
        self.found.append(trio.current_time())
        self.calls.append("find")
        answer = self.answer()
        if answer is Ellipsis:
            await trio.sleep_forever()
        return answer  # type: ignore[no-any-return]

    async def provide(self, topic: str) -> None:
        self.calls.append("provide")

    async def withdraw(self, topic: str) -> None:
        self.calls.append("withdraw")


class Seeker:
    """A rendezvous with its counters and all that it found."""

    def __init__(self, *sources: Any) -> None:
        self.counters = Counters()
        self.tasks = Tasks(self.counters)
        self.book = AddressBook()
        self.events = TopicEvents()
        self.contacts: list[tuple[bytes, ...]] = []
        self.rendezvous = Rendezvous(
            ME,
            sources,
            self.counters,
            Random(0),
            self.book,
            self.events,
            lambda _topic, peers: self.contacts.append(peers),
            self.tasks,
        )


@asynccontextmanager
async def seeking(*sources: Any) -> AsyncIterator[Seeker]:
    seeker = Seeker(*sources)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(seeker.tasks.run)
        seeker.rendezvous.join("t")
        yield seeker
        nursery.cancel_scope.cancel()


async def test_what_is_found_is_told_with_its_addresses(autojump_clock: MockClock) -> None:
    with_id = Multiaddr(f"{ADDRESS}/p2p/12D3KooWRBy97UB99e3J6hiPesre1MZeuNQvfan4gBziswrRJsNK")
    source = Directory(lambda: [info(b"a", with_id), info(ME), info(b"b"), info(b"a")])
    async with seeking(source) as seeker:
        await trio.sleep(0.1)
        assert seeker.contacts == [(b"a", b"b")]
        assert seeker.book.addresses(b"a") == (ADDRESS,)
        assert seeker.book.addresses(b"nobody") == ()


async def test_others_are_asked_for_before_we_are_provided(autojump_clock: MockClock) -> None:
    source = Directory()
    async with seeking(source):
        await trio.sleep(0.1)
        assert source.calls == ["find", "provide"]


async def test_a_topic_that_was_left_before_the_service_ran_is_not_sought(
    autojump_clock: MockClock,
) -> None:
    source = Directory()
    seeker = Seeker(source)
    seeker.rendezvous.join("left")
    seeker.rendezvous.leave("left")
    seeker.rendezvous.join("kept")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(seeker.tasks.run)
        await trio.sleep(0.1)
        nursery.cancel_scope.cancel()
    assert source.calls == ["find", "provide"]


async def test_look_ups_grow_rare_and_providing_is_repeated(autojump_clock: MockClock) -> None:
    source = Directory()
    async with seeking(source):
        await trio.sleep(2.5 * rendezvous.PROVIDE_INTERVAL)
        pauses = [b - a for a, b in zip(source.found, source.found[1:], strict=False)]
        assert pauses[0] <= rendezvous.FIRST_PAUSE
        assert rendezvous.LONGEST_PAUSE / 2 <= pauses[-1] <= rendezvous.LONGEST_PAUSE
        assert source.calls.count("provide") == 3


async def test_a_lonely_topic_is_looked_up_again_soon(autojump_clock: MockClock) -> None:
    source = Directory()
    async with seeking(source) as seeker:
        await trio.sleep(2000)
        for _ in range(50):
            seeker.events.emit(Alone("t"))
        now, before = trio.current_time(), len(source.found)
        await trio.sleep(rendezvous.FIRST_PAUSE * 1.5)
        assert [at - now for at in source.found[before:]] == [rendezvous.FIRST_PAUSE]


async def test_leaving_withdraws_and_ends_the_search(autojump_clock: MockClock) -> None:
    source = Directory()
    async with seeking(source) as seeker:
        await trio.sleep(10)
        seeker.rendezvous.leave("t")
        await trio.sleep(0.1)
        calls = list(source.calls)
        assert calls[-1] == "withdraw"
        await trio.sleep(1000)
        assert source.calls == calls


async def test_a_topic_joined_again_at_once_stays_provided(autojump_clock: MockClock) -> None:
    source = Directory()
    async with seeking(source) as seeker:
        await trio.sleep(10)
        seeker.rendezvous.leave("t")
        seeker.rendezvous.join("t")
        await trio.sleep(0.1)
        assert "withdraw" not in source.calls
        assert source.calls[-1] == "provide"


@pytest.mark.slow
async def test_thousands_of_providers_are_cut_to_a_random_few(autojump_clock: MockClock) -> None:
    source = Directory(lambda: [info(b"%d" % n) for n in range(5000)])
    async with seeking(source) as seeker:
        await trio.sleep(10_000)
        assert all(len(peers) == rendezvous.MAX_CONTACTS for peers in seeker.contacts)
        assert len({peer for peers in seeker.contacts for peer in peers}) > 100
        known = sum(bool(seeker.book.addresses(b"%d" % n)) for n in range(5000))
        assert known == MAX_FOUND
        excess = 5000 - rendezvous.MAX_ANSWER
        assert seeker.counters[Reason.DISCOVERY_EXCESS] == excess * len(source.found)


async def test_garbage_costs_nothing_valid(autojump_clock: MockClock) -> None:
    unreadable = Multiaddr.__new__(Multiaddr)
    unreadable._bytes = b"\xff\xff\xff"
    garbage: list[Any] = [
        None,
        "12D3KooW",
        PeerInfo(ID(b""), [ADDRESS]),
        PeerInfo(ID(b"x" * 1000), [ADDRESS]),
        PeerInfo(ID(b"nowhere"), []),
        PeerInfo(ID(b"unreadable"), [unreadable]),
        PeerInfo(None, [ADDRESS]),  # type: ignore[arg-type]
    ]
    source = Directory(lambda: [*garbage, info(b"good"), info(b"half", unreadable, ADDRESS)])
    async with seeking(source) as seeker:
        await trio.sleep(0.1)
        assert seeker.contacts == [(b"good", b"half")]
        assert seeker.counters[Reason.DISCOVERY_UNUSABLE] == len(garbage)


def raising(error: Exception) -> Callable[[], Any]:
    def answer() -> Any:
        raise error

    return answer


async def test_a_source_of_plain_functions_that_raise_is_counted(
    autojump_clock: MockClock,
) -> None:
    class Broken(Directory):
        provide = withdraw = staticmethod(lambda _: raising(OSError("no route"))())

    async with seeking(Broken(), good := Directory()) as seeker:
        await trio.sleep(0.1)
        seeker.rendezvous.leave("t")
        await trio.sleep(0.1)
        assert good.calls == ["find", "provide", "withdraw"]
        assert seeker.counters[Reason.DISCOVERY_FAILED] == 2
        assert seeker.counters[Reason.ERROR] == 0


async def test_a_task_that_raises_ends_no_other(autojump_clock: MockClock) -> None:
    """It would end the node."""
    async with seeking(Directory()) as seeker:
        seeker.tasks.start(trio.Event.wait, None)  # type: ignore[arg-type]
        await trio.sleep(0.1)
        assert seeker.counters[Reason.ERROR] == 1
        seeker.rendezvous.leave("t")


@pytest.mark.parametrize(
    "answer",
    [
        raising(OSError("no route")),
        raising(ExceptionGroup("several", [ValueError("bad"), KeyError("worse")])),
        lambda: None,
        lambda: ...,
    ],
    ids=["raises", "raises several", "no list", "never answers"],
)
async def test_a_broken_source_is_counted_and_asked_again(
    autojump_clock: MockClock, answer: Callable[[], Any]
) -> None:
    """And others are asked meanwhile."""
    broken, good = Directory(answer), Directory(lambda: [info(b"a")])
    async with seeking(broken, good) as seeker:
        await trio.sleep(rendezvous.LOOKUP_TIMEOUT + 0.1)
        assert seeker.contacts[0] == (b"a",)
        assert seeker.counters[Reason.DISCOVERY_FAILED] >= 1
        await trio.sleep(rendezvous.LOOKUP_TIMEOUT)
        assert len(broken.found) > 1
