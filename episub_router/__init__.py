"""Episub for py-libp2p: a pubsub router that builds broadcast trees over a self-healing overlay."""

from episub_router.net.discovery.dht import DhtDiscovery
from episub_router.net.discovery.source import Discovery
from episub_router.net.params import RouterParams
from episub_router.overlay import Neighbor, Overlay
from episub_router.protocol.params import (
    BroadcastParams,
    EagerRepair,
    EpisubParams,
    MembershipParams,
)
from episub_router.pubsub import PubsubDrop, PubsubParams, ResilientPubsub
from episub_router.router import PROTOCOL_ID, EpisubRouter

__all__ = [
    "PROTOCOL_ID",
    "BroadcastParams",
    "DhtDiscovery",
    "Discovery",
    "EagerRepair",
    "EpisubParams",
    "EpisubRouter",
    "MembershipParams",
    "Neighbor",
    "Overlay",
    "PubsubDrop",
    "PubsubParams",
    "ResilientPubsub",
    "RouterParams",
]
