"""Parameters of the routers that Episub is compared with: unit, default, source.

Section names are those of libp2p/specs, pubsub/gossipsub/gossipsub-v1.0.md, -v1.1.md and
-v1.2.md, given as "v1.0, Section". CHOKE and UNCHOKE are those of libp2p/specs PR 413, continued
in PR 681.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from episub_router.util.params import param


@dataclass(frozen=True, slots=True, kw_only=True)
class GossipsubParams:
    """Parameters of the gossipsub model; the defaults are v1.1's, `PRESETS` has the others."""

    d: int = param(6, "peers", "v1.0, Parameters: D")
    d_low: int = param(4, "peers", "v1.0, Parameters: D_low")
    d_high: int = param(12, "peers", "v1.0, Parameters: D_high")
    d_lazy: int = param(6, "peers", "v1.0, Parameters: D_lazy = D")
    d_out: int = param(2, "peers", "v1.1, Overview of New Parameters: D_out")
    heartbeat: float = param(1.0, "s", "v1.0, Parameters: heartbeat_interval")
    history: int = param(5, "heartbeats", "v1.0, Parameters: mcache_len")
    history_gossip: int = param(3, "heartbeats", "v1.0, Parameters: mcache_gossip")
    gossip_factor: float = param(0.25, "share", "v1.1, Adaptive Gossip Dissemination")
    gossip_to_any: bool = param(
        False,
        "switch",
        "simsub 2018: the peers to gossip to are drawn before mesh peers are left out",
    )
    flood_publish: bool = param(True, "switch", "v1.1, Flood Publishing")
    prune_peers: int = param(16, "peers", "v1.1, PRUNE Backoff and Peer Exchange; go: 16")
    prune_backoff: float = param(60.0, "s", "v1.1, PRUNE Backoff and Peer Exchange: 1 minute")
    graft_when_full: bool = param(False, "switch", "v1.1, Outbound Mesh Quotas: False")
    idontwant: int = param(0, "bytes", "v1.2, IDONTWANT Message: least payload size; 0 is off")
    retransmissions: int = param(3, "sends", "go-libp2p-pubsub: GossipRetransmission")
    connect: int = param(10, "peers", "simsub 2018: N-connect; connections that a node dials")
    choke_interval: int = param(
        0, "heartbeats", "libp2p/specs PR 413, Parameters: choke_heartbeat_interval, 20; 0 is off"
    )
    choke_churn: int = param(2, "peers", "PR 413, Parameters: choke_churn, unchoke_churn")
    d_non_choke: int = param(4, "peers", "PR 413, Parameters: D_non_choke = D_low")
    choke_after: float = param(
        0.0, "s", "libp2p/specs PR 681, Setting Threshold Parameters: 0.2; 0 is off"
    )
    unchoke_after: float = param(0.1, "s", "PR 681, Setting Threshold Parameters")
    large: int = param(40_960, "bytes", "nim-libp2p: preambleMessageSizeThreshold, 40 KiB")
    preamble: bool = param(False, "switch", "libp2p/specs PR 654: PREAMBLE and IMRECEIVING")
    fragment_size: int = param(
        0, "bytes", "arXiv 2504.10365: large messages in fragments of this size; 0 is off"
    )

    def __post_init__(self) -> None:
        if not 0 < self.d_low <= self.d <= self.d_high:
            raise ValueError(f"0 < d_low <= d <= d_high: {self.d_low}, {self.d}, {self.d_high}")
        if self.heartbeat <= 0:
            raise ValueError(f"heartbeat must be more than 0: {self.heartbeat}")
        if self.choke_interval and self.choke_after:
            raise ValueError("choke_interval or choke_after: they are two proposals")
        if self.preamble and self.fragment_size:
            raise ValueError("preamble or fragment_size: they aren't modelled together")
        if self.idontwant and (self.preamble or self.fragment_size):
            raise ValueError("idontwant: preamble and fragment_size have their own")
        if self.large < 1 or self.fragment_size < 0:
            raise ValueError(f"large >= 1, fragment_size >= 0: {self.large}, {self.fragment_size}")
        if not 0 < self.history_gossip <= self.history:
            raise ValueError(
                f"0 < history_gossip <= history: {self.history_gossip}, {self.history}"
            )


_NO_V1_1 = {
    "d_out": 0,
    "gossip_factor": 0.0,
    "flood_publish": False,
    "prune_peers": 0,
    "prune_backoff": 0.0,
    "graft_when_full": True,
}
PRESETS: dict[str, dict[str, Any]] = {
    "v1.1": {},
    "v1.0": _NO_V1_1,
    "simsub-2018": {
        **_NO_V1_1,
        "history": 120,
        "gossip_to_any": True,
        "retransmissions": 1_000_000,
    },
}
"""What each version changes in the defaults. The published simulator of 2018 answers every
IWANT, as it keeps messages for 120 heartbeats and doesn't count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FloodsubParams:
    """Parameters of the floodsub model."""

    connect: int = param(10, "peers", "simsub 2018: N-connect; connections that a node dials")
