"""What a pubsub measures for metrics: bytes by kind, and how long messages take here."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

from libp2p.pubsub.pb.rpc_pb2 import RPC

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper bounds in seconds, those of Prometheus's client libraries."""


@dataclass(slots=True)
class TrafficCount:
    """Counts since the pubsub was made."""

    received: Counter[str] = field(default_factory=Counter)
    """Bytes of frames by `kind_of`."""
    sent: Counter[str] = field(default_factory=Counter)
    delays: list[int] = field(default_factory=lambda: [0] * (len(BUCKETS) + 1))
    """How many messages took how long, by bucket; the last one has those above all bounds."""
    delay: float = 0.0
    """Seconds of all of them."""

    def note_delay(self, seconds: float) -> None:
        self.delays[bisect_left(BUCKETS, seconds)] += 1
        self.delay += seconds


KINDS = ("messages", "control")


def kind_of(rpc: RPC) -> str:
    """What a frame is for: messages, or control messages, subscriptions and pieces alone."""
    return "messages" if rpc.publish else "control"
