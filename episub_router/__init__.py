"""Episub for py-libp2p: a pubsub router that builds broadcast trees over a self-healing overlay.

The names below are loaded when first used: the protocol core, the simulator and the pipeline are
subpackages too, and need no libp2p.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from episub_router.fallback.params import FallbackParams as FallbackParams
    from episub_router.handle import TopicHandle as TopicHandle
    from episub_router.handle import open as open
    from episub_router.host import NodeStopped as NodeStopped
    from episub_router.metrics import NodeCollector as NodeCollector
    from episub_router.net.discovery.dht import DhtDiscovery as DhtDiscovery
    from episub_router.net.discovery.mdns import MdnsDiscovery as MdnsDiscovery
    from episub_router.net.discovery.rendezvous import Discovery as Discovery
    from episub_router.net.discovery.rendezvous_point import (
        RendezvousPointDiscovery as RendezvousPointDiscovery,
    )
    from episub_router.net.events import Alone as Alone
    from episub_router.net.events import Banned as Banned
    from episub_router.net.events import BootstrapFailed as BootstrapFailed
    from episub_router.net.events import EventsMissed as EventsMissed
    from episub_router.net.events import Joined as Joined
    from episub_router.net.events import LargeProgress as LargeProgress
    from episub_router.net.events import LargeSent as LargeSent
    from episub_router.net.events import MessageLost as MessageLost
    from episub_router.net.events import NeighborDown as NeighborDown
    from episub_router.net.events import NeighborUp as NeighborUp
    from episub_router.net.events import NotJoined as NotJoined
    from episub_router.net.events import ReaderBehind as ReaderBehind
    from episub_router.net.params import RouterParams as RouterParams
    from episub_router.net.peers import PROTOCOL_ID as PROTOCOL_ID
    from episub_router.protocol.params import BroadcastParams as BroadcastParams
    from episub_router.protocol.params import EagerRepair as EagerRepair
    from episub_router.protocol.params import EpisubParams as EpisubParams
    from episub_router.protocol.params import MembershipParams as MembershipParams
    from episub_router.publishing import BacklogFull as BacklogFull
    from episub_router.publishing import MessageTooLarge as MessageTooLarge
    from episub_router.publishing import PublishError as PublishError
    from episub_router.publishing import PublishTimeout as PublishTimeout
    from episub_router.publishing import RouterNotRunning as RouterNotRunning
    from episub_router.pubsub import Lagged as Lagged
    from episub_router.pubsub import PubsubDrop as PubsubDrop
    from episub_router.pubsub import PubsubParams as PubsubParams
    from episub_router.pubsub import ResilientPubsub as ResilientPubsub
    from episub_router.pubsub import SignaturePolicy as SignaturePolicy
    from episub_router.pubsub import Subscription as Subscription
    from episub_router.router import EpisubRouter as EpisubRouter
    from episub_router.snapshot import NeighborSnapshot as NeighborSnapshot
    from episub_router.snapshot import OverlaySnapshot as OverlaySnapshot

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

__all__ = list(_HOMES)


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
