"""A list of nodes to join through, given by hand (E02)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo, info_from_p2p_addr
from multiaddr import Multiaddr


class Bootstrap:
    """The same nodes for every topic; it can't provide this node to others."""

    def __init__(self, peers: Sequence[PeerInfo]) -> None:
        self.peers = peers

    async def find(self, topic: str) -> Sequence[PeerInfo]:
        return self.peers

    async def provide(self, topic: str) -> None:
        pass

    async def withdraw(self, topic: str) -> None:
        pass


def parse_bootstrap(addresses: Iterable[Multiaddr | str]) -> list[PeerInfo]:
    """Peers from multiaddrs that end in /p2p/<peer id>; addresses of one peer are gathered.

    Raises ValueError for an address without a peer id, TypeError for what is no list of addresses.
    """
    if isinstance(addresses, str | bytes | Multiaddr):
        raise TypeError(
            f"bootstrap must be a list of multiaddrs, and is one alone; write [{str(addresses)!r}]"
        )
    if not isinstance(addresses, Iterable):
        raise TypeError(f"bootstrap must be a list of multiaddrs: {addresses!r}")
    peers: dict[ID, PeerInfo] = {}
    for address in addresses:
        try:
            info = info_from_p2p_addr(Multiaddr(address) if isinstance(address, str) else address)
        except Exception as error:
            raise ValueError(f"not a multiaddr with /p2p/<peer id>: {address}") from error
        known = peers.setdefault(info.peer_id, PeerInfo(info.peer_id, []))
        known.addrs.extend(info.addrs)
    return list(peers.values())
