"""A list of nodes to join through, given by hand (E02), and why they could not be reached."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo, info_from_p2p_addr
from multiaddr import Multiaddr

from episub_router.addresses import parse_addresses
from episub_router.net.discovery.rendezvous import Discovery
from episub_router.net.events import BootstrapFailed, TopicEvents
from episub_router.net.peers import PeerListener, RemotePeer

_SAME_KEY = "it has this node's own peer id: two nodes can't share a key"


@dataclass(eq=False)
class Bootstrap(Discovery, PeerListener):
    """The same nodes for every topic; it can't provide this node to others.

    Failed dials to them are reported in each of `topics`.
    """

    me: RemotePeer
    peers: Sequence[PeerInfo]
    topics: Iterable[str]
    events: TopicEvents

    def __post_init__(self) -> None:
        self.addresses = {info.peer_id.to_bytes(): tuple(info.addrs) for info in self.peers}

    async def find(self, topic: str) -> Sequence[PeerInfo]:
        if self.me.key in self.addresses:
            self.me.dial_error = _SAME_KEY
            self._report((topic,), self.me)
        return self.peers

    def dial_failed(self, peer: RemotePeer) -> None:
        self._report(self.topics, peer)

    def _report(self, topics: Iterable[str], peer: RemotePeer) -> None:
        for address in self.addresses.get(peer.key, ())[:1]:
            for topic in topics:
                self.events.emit(BootstrapFailed(topic, address, peer.dial_error))


def parse_bootstrap(addresses: Iterable[Multiaddr | str]) -> list[PeerInfo]:
    """Peers from multiaddrs that end in /p2p/<peer id>; addresses of one peer are gathered.

    Raises ValueError for an address without a peer id, TypeError for what is no list of addresses.
    """
    peers: dict[ID, PeerInfo] = {}
    for address in parse_addresses("bootstrap", addresses):
        try:
            info = info_from_p2p_addr(address)
        except Exception as error:
            raise ValueError(f"not a multiaddr with /p2p/<peer id>: {address}") from error
        known = peers.setdefault(info.peer_id, PeerInfo(info.peer_id, []))
        known.addrs.extend(info.addrs)
    return list(peers.values())
