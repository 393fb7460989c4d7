"""Every parameter of the embedded GossipSub: unit, default, source of the default."""

from __future__ import annotations

from dataclasses import dataclass

from libp2p.custom_types import TProtocol
from libp2p.pubsub import floodsub
from libp2p.pubsub.gossipsub import (
    PROTOCOL_ID,
    PROTOCOL_ID_V11,
    PROTOCOL_ID_V12,
    PROTOCOL_ID_V13,
    PROTOCOL_ID_V14,
    PROTOCOL_ID_V20,
)

from episub_router.util.params import check_numbers, param

_BRIDGE_DEGREE = 2
"""gossipsub's D where Episub brings messages too; chosen: two paths to gossipsub, more if its peers
want."""

_GRAFT_REFUSED = 10
"""Seconds; gossipsub v1.1's unsubscribe back-off. py-libp2p refuses a GRAFT so long after a PRUNE,
or for `prune_back_off` if that is less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackParams:
    """Parameters of the service to peers without Episub. Raises ValueError where values
    contradict."""

    protocols: tuple[TProtocol, ...] = param(
        (PROTOCOL_ID_V13, PROTOCOL_ID_V12, PROTOCOL_ID_V11, PROTOCOL_ID, floodsub.PROTOCOL_ID),
        "protocol ids",
        "gossipsub spec: 1.0 to 1.3, the newest first; py-libp2p's 1.4.0 and 2.0.0 are its own, "
        "and served as 1.3 where they are named",
    )
    """What is offered beside Episub, the preferred one first."""
    heartbeat_interval: int = param(1, "s", "gossipsub: 1 s; py-libp2p's default is 120 s")
    """Period of GossipSub's upkeep of its meshes."""
    degree: int = param(6, "peers", "gossipsub: D = 6")
    """Mesh links of a topic that GossipSub aims at."""
    degree_low: int = param(4, "peers", "gossipsub: D_low = 4; py-libp2p's tests have 4 to 12")
    """Mesh links below which it grafts more."""
    degree_high: int = param(12, "peers", "gossipsub: D_high = 12")
    """Mesh links above which it prunes."""
    prune_backoff: int = param(60, "s", "gossipsub v1.1: 1 minute")
    """Time in which a peer that was pruned may not graft."""
    unsubscribe_backoff: int = param(
        1,
        "s",
        "chosen: gossipsub v1.1 has 10 s, in which py-libp2p sends a peer that came back nothing",
    )
    """The same after this node unsubscribed."""
    direct_connect_interval: int = param(300, "s", "go-libp2p-pubsub: DirectConnectTicks 300")
    """How often direct peers that are gone are dialled."""

    @property
    def bridge_degree(self) -> int:
        """Mesh links that GossipSub asks for where Episub brings a topic's messages, too."""
        return min(_BRIDGE_DEGREE, self.degree)

    @property
    def regraft_pause(self) -> int:
        """Seconds in which this node grafts no peer that it left by unsubscribing."""
        return min(_GRAFT_REFUSED, self.prune_backoff)

    def __post_init__(self) -> None:
        if not self.protocols:
            raise ValueError("protocols must name at least one")
        unknown = [p for p in self.protocols if p not in _SERVED]
        if unknown:
            raise ValueError(f"protocols that GossipSub doesn't serve: {', '.join(unknown)}")
        check_numbers(self)
        if not self.degree_low <= self.degree <= self.degree_high:
            raise ValueError(
                f"degree_low, degree and degree_high must not decrease: "
                f"{self.degree_low}, {self.degree}, {self.degree_high}"
            )


_SERVED = frozenset(
    (
        *(PROTOCOL_ID_V20, PROTOCOL_ID_V14, PROTOCOL_ID_V13, PROTOCOL_ID_V12, PROTOCOL_ID_V11),
        *(PROTOCOL_ID, floodsub.PROTOCOL_ID),
    )
)
