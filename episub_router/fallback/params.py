"""Every parameter of the embedded GossipSub: unit, default, source of the default."""

from __future__ import annotations

from dataclasses import dataclass

from libp2p.custom_types import TProtocol
from libp2p.pubsub import floodsub
from libp2p.pubsub.gossipsub import PROTOCOL_ID, PROTOCOL_ID_V11, PROTOCOL_ID_V12, PROTOCOL_ID_V13

from episub_router.util.params import check_numbers, param


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackParams:
    """Parameters of the service to peers without Episub. Raises ValueError where values
    contradict."""

    protocols: tuple[TProtocol, ...] = param(
        (PROTOCOL_ID_V13, PROTOCOL_ID_V12, PROTOCOL_ID_V11, PROTOCOL_ID, floodsub.PROTOCOL_ID),
        "protocol ids",
        "gossipsub spec: 1.0 to 1.3, the newest first; py-libp2p's 1.4.0 and 2.0.0 are its own",
    )

    heartbeat_interval: int = param(1, "s", "gossipsub: 1 s; py-libp2p's default is 120 s")
    degree: int = param(6, "peers", "gossipsub: D = 6")
    degree_low: int = param(4, "peers", "gossipsub: D_low = 4; py-libp2p's tests have 4 to 12")
    degree_high: int = param(12, "peers", "gossipsub: D_high = 12")
    bridge_degree: int = param(
        2,
        "peers",
        "ours: D where Episub brings messages too; two paths to gossipsub, more if its peers want",
    )
    bridge_degree_low: int = param(1, "peers", "ours: D_low there")
    gossip_window: int = param(3, "heartbeats", "gossipsub: mcache_gossip = 3")
    gossip_history: int = param(5, "heartbeats", "gossipsub: mcache_len = 5")
    fanout_ttl: int = param(60, "s", "gossipsub: fanout_ttl = 60 s")
    prune_backoff: int = param(60, "s", "gossipsub v1.1: 1 minute")
    unsubscribe_backoff: int = param(
        1,
        "s",
        "ours: gossipsub v1.1 has 10 s, in which py-libp2p sends one who came back nothing at all",
    )
    regraft_pause: int = param(
        10,
        "s",
        "gossipsub v1.1's unsubscribe back-off; py-libp2p refuses a GRAFT so long after any PRUNE",
    )
    backoff_slack: int = param(
        2, "s", "ours: a second that py-libp2p rounds off, and a heartbeat on the way"
    )
    max_idontwant: int = param(
        1000, "ids", "go-libp2p-pubsub: MaxIDontWantMessages 1000 per peer and heartbeat"
    )
    retransmissions: int = param(
        3, "sends", "go-libp2p-pubsub: GossipRetransmission 3 per id and peer"
    )
    cache_messages: int = param(4096, "messages", "ours: as in Episub's cache")
    cache_bytes: int = param(32 * 2**20, "bytes", "ours: as in Episub's cache")

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
        if not self.bridge_degree_low <= self.bridge_degree <= self.degree:
            raise ValueError(
                f"bridge_degree_low, bridge_degree and degree must not decrease: "
                f"{self.bridge_degree_low}, {self.bridge_degree}, {self.degree}"
            )
        if self.gossip_window > self.gossip_history:
            raise ValueError(
                f"gossip_window must not be above gossip_history: "
                f"{self.gossip_window} > {self.gossip_history}"
            )


_SERVED = frozenset(
    (PROTOCOL_ID_V13, PROTOCOL_ID_V12, PROTOCOL_ID_V11, PROTOCOL_ID, floodsub.PROTOCOL_ID)
)
