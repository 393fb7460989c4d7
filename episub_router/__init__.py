"""Episub for py-libp2p: a pubsub router that builds broadcast trees over a self-healing overlay."""

from episub_router.fallback import FallbackParams
from episub_router.net.params import RouterParams
from episub_router.net.peers import PROTOCOL_ID
from episub_router.overlay import Neighbor, Overlay
from episub_router.protocol.params import (
    BroadcastParams,
    EagerRepair,
    EpisubParams,
    MembershipParams,
)
from episub_router.pubsub import PubsubDrop, PubsubParams, ResilientPubsub
from episub_router.router import EpisubRouter

__all__ = [
    "PROTOCOL_ID",
    "BroadcastParams",
    "EagerRepair",
    "EpisubParams",
    "EpisubRouter",
    "FallbackParams",
    "MembershipParams",
    "Neighbor",
    "Overlay",
    "PubsubDrop",
    "PubsubParams",
    "ResilientPubsub",
    "RouterParams",
]
