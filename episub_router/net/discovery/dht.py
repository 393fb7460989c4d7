"""Rendezvous through provider records in py-libp2p's Kademlia DHT (E02)."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from libp2p.kad_dht.kad_dht import KadDHT
from libp2p.kad_dht.provider_store import ProviderStore
from libp2p.peer.peerinfo import PeerInfo

_SHA2_256 = b"\x12\x20"
"""The multihash prefix: code, then length."""

_PROVIDERS = 100
"""Providers that end a lookup. A DHT node names at most 20, so one alone doesn't."""


def topic_key(topic: str) -> bytes:
    """The DHT key of `topic`: the sha2-256 multihash of "episub:" and the topic in UTF-8.

    It is the multihash of the CID under which libp2p's routing discovery puts a namespace.
    """
    return _SHA2_256 + sha256(f"episub:{topic}".encode()).digest()


class DhtDiscovery:
    """Puts this node's provider record under each topic, and finds those of others.

    `dht` is a running `KadDHT` of the router's host that knows at least one DHT node, or is
    connected to one. py-libp2p's DHT nodes keep the first 20 providers of a key for 48 hours,
    whether they live or not: give the router a bootstrap list as well where topics are large.
    """

    def __init__(self, dht: KadDHT) -> None:
        self._dht = dht

    async def find(self, topic: str) -> Sequence[PeerInfo]:
        """Ask the DHT nodes nearest to the topic's key."""
        # The DHT's own store answers from its first look-up, and never asks again.
        afresh = ProviderStore(self._dht.host, self._dht.peer_routing)
        return await afresh.find_providers(topic_key(topic), _PROVIDERS)

    async def provide(self, topic: str) -> None:
        """Raises ConnectionError if no DHT node took the record."""
        if not await self._dht.provider_store.provide(topic_key(topic)):
            raise ConnectionError(f"no DHT node took a provider record for {topic!r}")

    async def withdraw(self, topic: str) -> None:
        """Provide no longer; records that were given out stay until they expire."""
        store = self._dht.provider_store
        store.providing_keys.discard(topic_key(topic))
        store.providers.pop(topic_key(topic), None)
