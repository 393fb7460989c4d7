"""Episub for py-libp2p: a pubsub router that builds broadcast trees over a self-healing overlay.

The names below are loaded when first used: the protocol core, the simulator and the pipeline are
subpackages too, and need no libp2p.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from episub_router.fallback.params import FallbackParams
    from episub_router.handle import TopicHandle, open
    from episub_router.host import NodeStopped
    from episub_router.metrics import NodeCollector
    from episub_router.net.discovery.dht import DhtDiscovery
    from episub_router.net.discovery.mdns import MdnsDiscovery
    from episub_router.net.discovery.rendezvous import Discovery
    from episub_router.net.discovery.rendezvous_point import RendezvousPointDiscovery
    from episub_router.net.events import (
        Alone,
        Banned,
        BootstrapFailed,
        EventsMissed,
        Joined,
        LargeProgress,
        LargeSent,
        MessageLost,
        NeighborDown,
        NeighborUp,
        NotJoined,
        ReaderBehind,
    )
    from episub_router.net.params import RouterParams
    from episub_router.net.peers import PROTOCOL_ID
    from episub_router.protocol.params import (
        BroadcastParams,
        EagerRepair,
        EpisubParams,
        MembershipParams,
    )
    from episub_router.publishing import (
        BacklogFull,
        MessageTooLarge,
        PublishError,
        PublishTimeout,
        RouterNotRunning,
    )
    from episub_router.pubsub import (
        Lagged,
        PubsubDrop,
        PubsubParams,
        ResilientPubsub,
        SignaturePolicy,
        Subscription,
    )
    from episub_router.router import EpisubRouter
    from episub_router.snapshot import NeighborSnapshot, OverlaySnapshot

_HOMES = {
    "PROTOCOL_ID": "net.peers",
    "Alone": "net.events",
    "BacklogFull": "publishing",
    "Banned": "net.events",
    "BootstrapFailed": "net.events",
    "BroadcastParams": "protocol.params",
    "DhtDiscovery": "net.discovery.dht",
    "Discovery": "net.discovery.rendezvous",
    "EagerRepair": "protocol.params",
    "EpisubParams": "protocol.params",
    "EpisubRouter": "router",
    "EventsMissed": "net.events",
    "FallbackParams": "fallback.params",
    "Joined": "net.events",
    "Lagged": "pubsub",
    "LargeProgress": "net.events",
    "LargeSent": "net.events",
    "MdnsDiscovery": "net.discovery.mdns",
    "MembershipParams": "protocol.params",
    "MessageLost": "net.events",
    "MessageTooLarge": "publishing",
    "NeighborDown": "net.events",
    "NeighborSnapshot": "snapshot",
    "NeighborUp": "net.events",
    "NodeCollector": "metrics",
    "NodeStopped": "host",
    "NotJoined": "net.events",
    "OverlaySnapshot": "snapshot",
    "PublishError": "publishing",
    "PublishTimeout": "publishing",
    "PubsubDrop": "pubsub",
    "PubsubParams": "pubsub",
    "ReaderBehind": "net.events",
    "RendezvousPointDiscovery": "net.discovery.rendezvous_point",
    "ResilientPubsub": "pubsub",
    "RouterNotRunning": "publishing",
    "RouterParams": "net.params",
    "SignaturePolicy": "pubsub",
    "Subscription": "pubsub",
    "TopicHandle": "handle",
    "open": "handle",
}

__all__ = [
    "PROTOCOL_ID",
    "Alone",
    "BacklogFull",
    "Banned",
    "BootstrapFailed",
    "BroadcastParams",
    "DhtDiscovery",
    "Discovery",
    "EagerRepair",
    "EpisubParams",
    "EpisubRouter",
    "EventsMissed",
    "FallbackParams",
    "Joined",
    "Lagged",
    "LargeProgress",
    "LargeSent",
    "MdnsDiscovery",
    "MembershipParams",
    "MessageLost",
    "MessageTooLarge",
    "NeighborDown",
    "NeighborSnapshot",
    "NeighborUp",
    "NodeCollector",
    "NodeStopped",
    "NotJoined",
    "OverlaySnapshot",
    "PublishError",
    "PublishTimeout",
    "PubsubDrop",
    "PubsubParams",
    "ReaderBehind",
    "RendezvousPointDiscovery",
    "ResilientPubsub",
    "RouterNotRunning",
    "RouterParams",
    "SignaturePolicy",
    "Subscription",
    "TopicHandle",
    "open",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    upstream = import_module(f"{__name__}.upstream")
    try:
        value = getattr(import_module(f"{__name__}.{home}"), name)
    except ImportError as error:
        if not (error.name or "").startswith("libp2p"):
            raise
        raise upstream.unfit(str(error)) from error
    if "libp2p" in sys.modules:
        upstream.check_libp2p()
    globals()[name] = value
    return value
