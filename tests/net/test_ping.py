"""Measuring RTTs on request: the budget, and that each request is answered once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio
from libp2p.peer.id import ID
from trio.testing import MockClock

from episub_router.net.backlog import Backlog
from episub_router.net.connections import ping
from episub_router.net.counters import Counters, Reason
from episub_router.net.peers import RemotePeer
from episub_router.net.tasks import Tasks

CONNECTION = SimpleNamespace(is_closed=False, muxed_conn=None)
NETWORK = SimpleNamespace(get_connections=lambda peer: [CONNECTION])
CONNECTED = SimpleNamespace(get_network=lambda: NETWORK)


class Measuring:
    """A pinger whose pings take `rtt` seconds, or raise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rtt: float | Exception) -> None:
        self.started: list[float] = []
        self.reports: list[tuple[bytes, float | None]] = []
        self.counters = Counters()
        host: Any = CONNECTED
        self.tasks = Tasks(self.counters)
        self.pinger = ping.Pinger(host, self.counters, self.tasks)

        async def measure(host: Any, peer: ID) -> float:
            self.started.append(trio.current_time())
            if isinstance(rtt, Exception):
                raise rtt
            await trio.sleep(rtt)
            return rtt

        monkeypatch.setattr(ping, "measure_rtt", measure)

    def request(self, peer: RemotePeer) -> None:
        self.pinger.request(peer, lambda peer, rtt: self.reports.append((peer.key, rtt)))


async def run(measuring: Measuring, seconds: float, *peers: bytes) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(measuring.tasks.run)
        records = {peer: RemotePeer(ID(peer), Backlog(1, 1), 0) for peer in peers}
        for peer in peers:
            measuring.request(records[peer])
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()


async def test_pings_keep_to_the_budget(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    measuring = Measuring(monkeypatch, 0.01)
    peers = [b"%d" % n for n in range(20)]
    await run(measuring, 100, *peers)
    gaps = [b - a for a, b in zip(measuring.started, measuring.started[1:], strict=False)]
    assert min(gaps) >= 1 / ping.PINGS_PER_SECOND - 1e-6
    assert sorted(measuring.reports) == sorted((peer, 0.01) for peer in peers)


@pytest.mark.parametrize("outcome", [3600.0, OSError("reset")], ids=["slow", "broken"])
async def test_what_fails_is_reported_as_failed(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch, outcome: float | Exception
) -> None:
    measuring = Measuring(monkeypatch, outcome)
    await run(measuring, 10, b"peer")
    assert measuring.reports == [(b"peer", None)]
    assert measuring.counters[Reason.PINGS_FAILED] == 1


async def test_what_the_kernel_knows_costs_no_ping(monkeypatch: pytest.MonkeyPatch) -> None:
    measuring = Measuring(monkeypatch, 0.01)
    monkeypatch.setattr(ping, "shortest_rtt", lambda host, peer: 0.04)
    peers = [RemotePeer(ID(b"%d" % n), Backlog(1, 1), 0) for n in range(100)]
    for peer in peers:
        measuring.request(peer)
    assert measuring.reports == [(peer.key, 0.04) for peer in peers]
    assert not measuring.started
