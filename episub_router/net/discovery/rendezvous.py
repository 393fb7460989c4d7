"""Keeps asking every source for contacts of the topics that this node is in (E02)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Protocol

import trio
from libp2p.peer.peerinfo import PeerInfo
from multiaddr import Multiaddr

from episub_router.addresses import is_circuit
from episub_router.net.address_book import DIALLED_ADDRESSES, AddressBook
from episub_router.net.counters import Counters, Reason
from episub_router.net.events import Alone, TopicEvents
from episub_router.net.tasks import Tasks
from episub_router.util.checks import check_methods

FIRST_PAUSE = 1.0
"""Seconds after the first look-up in a source; doubles each time; chosen."""

LONGEST_PAUSE = 300.0
"""Seconds between two look-ups at most; chosen: as the core asks its contacts."""

PROVIDE_INTERVAL = 3600.0
"""Seconds; chosen: a DHT node that came back without its records has ours in an hour."""

LOOKUP_TIMEOUT = 30.0
"""Seconds; py-libp2p: its DHT look-ups end after 30 s."""

MAX_ANSWER = 1000
"""Peers; chosen: more of one answer are not looked at."""

MAX_CONTACTS = 16
"""Peers of one answer that are used, at random; chosen: a quarter of the core's
table of contacts."""

_P2P = 421
"""Code of the multiaddr part that holds a peer id."""

_MAX_PEER_ID = 128
"""Bytes; a libp2p peer id has at most 42."""


class Discovery(Protocol):
    """A place where nodes of one topic find each other, such as a DHT or a directory. One that
    inherits from this class need not have `provide` and `withdraw`.

    Methods may take their time and may raise: the router gives each call 30 s,
    counts what fails, and calls again later. What `find` returns is not trusted.
    """

    async def find(self, topic: str) -> Sequence[PeerInfo]:
        """Nodes said to be in `topic`, this one perhaps among them."""

    async def provide(self, topic: str) -> None:
        """Let others find this node under `topic`; called again every hour."""
        return

    async def withdraw(self, topic: str) -> None:
        """This node has left `topic`."""
        return


def check_sources(sources: Iterable[Discovery]) -> tuple[Discovery, ...]:
    """The sources; raises TypeError for what is no list, and for what is no Discovery in it."""
    if not isinstance(sources, Iterable):
        raise TypeError(f"discovery must be a list, like [DhtDiscovery(dht)]: {sources!r}")
    found = tuple(sources)
    for source in found:
        check_methods("each of discovery", source, "find", "provide", "withdraw")
    return found


@dataclass(eq=False)
class Rendezvous:
    """One task for each joined topic and source: find, provide, wait, find again.

    Others are asked for before this node is provided, whose own record is of no use to it. The
    pauses double up to `LONGEST_PAUSE`, and start short again when a topic has no neighbours
    left.
    """

    me: bytes
    sources: Sequence[Discovery]
    counters: Counters
    rng: Random
    book: AddressBook
    events: TopicEvents
    add_contacts: Callable[[str, tuple[bytes, ...]], None]
    """Gets the topic and the peers found, whose addresses go to `book`."""
    tasks: Tasks

    def __post_init__(self) -> None:
        self._searches: dict[str, trio.CancelScope] = {}
        """By topic."""

    def join(self, topic: str) -> None:
        """Seek contacts of `topic` until `leave`."""
        if topic in self._searches or not self.sources:
            return
        search = self._searches[topic] = trio.CancelScope()
        self.tasks.start(self._serve, topic, search)

    def leave(self, topic: str) -> None:
        """Seek no longer, and stop being found."""
        search = self._searches.pop(topic, None)
        if search is not None:
            search.cancel()

    async def _serve(self, topic: str, search: trio.CancelScope) -> None:
        if search.cancel_called:
            return  # it was left before tasks ran
        with search:
            async with trio.open_nursery() as nursery:
                for source in self.sources:
                    nursery.start_soon(self._seek, topic, source)
        for source in self.sources:
            if topic not in self._searches:
                await self._attempt(source.withdraw, topic)

    async def _seek(self, topic: str, source: Discovery) -> None:
        pause = FIRST_PAUSE
        provide_at = trio.current_time()
        while True:
            events = self.events.read(topic)
            contacts = await self._find(topic, source)
            if contacts:
                self.add_contacts(topic, contacts)
            if provide_at <= trio.current_time() and await self._attempt(source.provide, topic):
                provide_at = trio.current_time() + PROVIDE_INTERVAL
            with trio.move_on_after(pause * self.rng.uniform(0.5, 1.0)):
                async for event in events:
                    if isinstance(event, Alone):
                        break
                # What has just been found was of no use.
                pause = FIRST_PAUSE
                await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _attempt(self, call: Callable[[str], Awaitable[object]], topic: str) -> bool:
        """Whether `call` for `topic` ended well and in time."""
        try:
            with trio.fail_after(LOOKUP_TIMEOUT):
                await call(topic)
        except Exception:
            self.counters.add(Reason.DISCOVERY_FAILED)
            return False
        return True

    async def _find(self, topic: str, source: Discovery) -> tuple[bytes, ...]:
        """A few of the peers that `source` names, at random, with their addresses learnt."""
        answer: dict[bytes, tuple[Multiaddr, ...]] = {}

        async def ask(topic: str) -> None:
            found = await source.find(topic)
            if len(found) > MAX_ANSWER:
                self.counters.add(Reason.DISCOVERY_EXCESS, len(found) - MAX_ANSWER)
            for info in islice(found, MAX_ANSWER):
                self._take(info, answer)

        await self._attempt(ask, topic)
        chosen = sorted(answer)
        if len(chosen) > MAX_CONTACTS:
            chosen = self.rng.sample(chosen, MAX_CONTACTS)
        for peer in chosen:
            self.book.found(peer, answer[peer])
        return tuple(chosen)

    def _take(self, info: PeerInfo, answer: dict[bytes, tuple[Multiaddr, ...]]) -> None:
        """Put `info` into `answer`, if there is anything in it to dial."""
        try:
            peer = info.peer_id.to_bytes()
            addresses = _dialable(info.addrs[:DIALLED_ADDRESSES])
            usable = 0 < len(peer) <= _MAX_PEER_ID and bool(addresses)
        except Exception:
            # An application's discovery may return anything.
            usable = False
        if not usable:
            self.counters.add(Reason.DISCOVERY_UNUSABLE)
        elif peer != self.me:
            answer.setdefault(peer, addresses)


def _dialable(addresses: Sequence[Multiaddr]) -> tuple[Multiaddr, ...]:
    """The addresses that can be read, without the peer id at their end; circuits as they are, since
    the last id may be the relay's."""
    readable = []
    for address in addresses:
        try:
            bare = address if is_circuit(address) else address.decapsulate_code(_P2P)
            if str(bare):
                readable.append(bare)
        except Exception:
            # Multiaddr takes any bytes, and raises only when it is read.
            continue
    return tuple(readable)
