"""What `EpisubRouter` asks for contacts of a topic (E02)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from libp2p.peer.peerinfo import PeerInfo

from episub_router.util.checks import check_methods


class Discovery(Protocol):
    """A place where nodes of one topic find each other, such as a DHT or a directory.

    Methods may take their time and may raise: the router gives each call 30 s,
    counts what fails, and calls again later. What `find` returns is not trusted.
    """

    async def find(self, topic: str) -> Sequence[PeerInfo]:
        """Nodes said to be in `topic`, this one perhaps among them."""

    async def provide(self, topic: str) -> None:
        """Let others find this node under `topic`; called again every hour."""

    async def withdraw(self, topic: str) -> None:
        """This node has left `topic`."""


def check_sources(sources: Iterable[Discovery]) -> tuple[Discovery, ...]:
    """The sources; raises TypeError for what is no list, and for what is no Discovery in it."""
    if not isinstance(sources, Iterable):
        raise TypeError(f"discovery must be a list, like [DhtDiscovery(dht)]: {sources!r}")
    found = tuple(sources)
    for source in found:
        check_methods("each of discovery", source, "find", "provide", "withdraw")
    return found
