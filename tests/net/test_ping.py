"""Measuring RTTs on request: the budget, and that each request is answered once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import trio
from libp2p.peer.id import ID
from trio.testing import MockClock

from episub_router.net import ping
from episub_router.net.backlog import Backlog
from episub_router.net.counters import Counters, Reason
from episub_router.net.peers import RemotePeer

CONNECTED = SimpleNamespace(get_network=lambda: SimpleNamespace(get_connections=lambda peer: [1]))


class Measuring:
    """A pinger whose pings take `rtt` seconds, or raise."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, rtt: float | Exception) -> None:
        self.started: list[float] = []
        self.reports: list[tuple[bytes, float | None]] = []
        self.counters = Counters()
        host: Any = CONNECTED
        peers: Any = SimpleNamespace(
            note_rtt=lambda peer, rtt: self.reports.append((peer.key, rtt))
        )
        self.pinger = ping.Pinger(host, self.counters, peers)

        async def measure(host: Any, peer: ID) -> float:
            self.started.append(trio.current_time())
            if isinstance(rtt, Exception):
                raise rtt
            await trio.sleep(rtt)
            return rtt

        monkeypatch.setattr(ping, "measure_rtt", measure)


async def run(measuring: Measuring, seconds: float, *peers: bytes) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(measuring.pinger.run)
        records = {peer: RemotePeer(ID(peer), Backlog(1, 1), 0) for peer in peers}
        for peer in peers:
            measuring.pinger.request(records[peer])
        await trio.sleep(seconds)
        nursery.cancel_scope.cancel()


async def test_pings_keep_to_the_budget(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    measuring = Measuring(monkeypatch, 0.01)
    peers = [b"%d" % n for n in range(20)]
    await run(measuring, 100, *peers, *peers)
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


async def test_what_was_measured_while_the_event_loop_was_behind_is_measured_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ping of a busy host says how busy it is; near neighbours would look far."""
    paces = iter([True, True, False])

    @asynccontextmanager
    async def watched(seconds: float) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(is_slow=next(paces))

    monkeypatch.setattr(ping, "load_aware", watched)
    measuring = Measuring(monkeypatch, 0.01)
    await run(measuring, 60, b"peer")
    assert len(measuring.started) == 3
    assert measuring.started[1] - measuring.started[0] >= 10
    assert measuring.reports == [(b"peer", 0.01)]
