"""A bridge at a constant rate: what it loses, how late messages are, and what it costs.

`python -m interop.harness.rate --kind py --rate 200 --seconds 30` measures py-libp2p's GossipSub in
the place of an Episub node.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import dataclass
from pathlib import Path

import trio

from interop.harness.lab import Lab, running_lab
from interop.harness.links import mesh_link
from interop.harness.peer import Peer
from interop.harness.traffic import payload_hash
from interop.testbed.checker.latency import percentile
from interop.testbed.lab.usage import read_usage

TOPIC = "rate"
SIZE = 256
"""Bytes."""
WARM_UP = 20
"""Messages before the first that counts."""
_SILENCE = 20.0
"""Seconds without a delivery after which what is missing counts as lost."""


@dataclass(frozen=True, slots=True)
class RateReport:
    """What became of `count` messages at each of three receivers."""

    count: int
    missing: int
    p50: float
    """Seconds from publishing to delivery, as seen by the harness."""
    p99: float
    cpu: float
    """Milliseconds of CPU time of the bridge for each message."""

    def __str__(self) -> str:
        return (
            f"{self.count} messages: {self.missing} of {3 * self.count} deliveries missing, "
            f"p50 {self.p50 * 1000:.0f} ms, p99 {self.p99 * 1000:.0f} ms, "
            f"{self.cpu:.2f} ms of CPU a message at the bridge"
        )


async def measure(lab: Lab, kind: str, rate: float, seconds: float) -> RateReport:
    """A go peer publishes; a bridge of `kind` passes on to a go peer and to another of `kind`."""
    author, bridge, near, far = [
        await lab.start(each, topics=[TOPIC]) for each in ("go", kind, "go", kind)
    ]
    for other in (author, near, far):
        await mesh_link(other, bridge, TOPIC)
    receivers = [bridge, near, far]
    for number in range(WARM_UP):
        await author.send("publish", topic=TOPIC, size=SIZE, seed=f"warm-up {number}")
    for peer in receivers:
        await peer.event("delivery", count=WARM_UP)
    before = _cpu_seconds(bridge)
    sent: dict[str, float] = {}
    count = int(rate * seconds)
    start = trio.current_time()
    for number in range(count):
        # What is late doesn't come all at once: that would be another rate.
        due, now = start + number / rate, trio.current_time()
        await trio.sleep_until(due if due > now else now + 0.5 / rate)
        sent[payload_hash(SIZE, f"{number}")] = trio.current_time()
        await author.send("publish", topic=TOPIC, size=SIZE, seed=f"{number}")
    for peer in receivers:
        await _settle(peer, count + WARM_UP)
    late = [
        event["at"] - sent[event["sha256"]]
        for peer in receivers
        for event in peer.reported("delivery")
        if event["sha256"] in sent
    ]
    return RateReport(
        count,
        3 * count - len(late),
        percentile(late, 0.50),
        percentile(late, 0.99),
        1000 * (_cpu_seconds(bridge) - before) / count,
    )


async def _settle(peer: Peer, count: int) -> None:
    """Wait until the peer has `count` messages, or gets no more."""
    while (got := peer.count("delivery")) < count:
        with trio.move_on_after(_SILENCE) as silence:
            await peer.event("delivery", count=got + 1)
        if silence.cancelled_caught:
            return


def _cpu_seconds(peer: Peer) -> float:
    usage = read_usage(peer.process.pid)
    assert usage is not None
    return usage.cpu


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kind", default="episub")
    parser.add_argument("--rate", type=float, default=200)
    parser.add_argument("--seconds", type=float, default=30)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as logs:
        async with running_lab(Path(logs)) as lab:
            print(await measure(lab, args.kind, args.rate, args.seconds))


if __name__ == "__main__":
    trio.run(main)
