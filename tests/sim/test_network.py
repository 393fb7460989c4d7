"""Connections: what they cost, in which order things arrive, and how failures are noticed."""

from __future__ import annotations

import random
from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest

from episub_router.sim.network.latency import UniformLatency
from episub_router.sim.network.network import Network
from episub_router.sim.network.queue import EventLoop
from episub_router.sim.network.settings import NetworkConfig
from episub_router.sim.records import Records
from episub_router.sim.routers.node import Node

DELAY = 0.05


class Diary(Node):
    """Writes down what happens to it."""

    __slots__ = ("seen",)

    def __init__(self, node: int, network: Network) -> None:
        super().__init__(node, network, random.Random(node))
        self.seen: list[tuple[float, str, Any]] = []

    def _note(self, what: str, of: Any) -> None:
        self.seen.append((round(self.loop.now, 6), what, of))

    def of(self, what: str) -> list[Any]:
        return [entry for _, kind, entry in self.seen if kind == what]

    def start(self, contacts: tuple[int, ...]) -> None: ...

    def receive(self, parcel: Any) -> None:
        if parcel[0] in self.links:
            self._note("received", parcel)

    def inject(self, message: int, size: int) -> None: ...

    def goodbye(self) -> None: ...

    def timer(self) -> None:
        self._note("timer", None)

    def connected(self, peer: int) -> None:
        self._note("connected", peer)

    def disconnected(self, peer: int) -> None:
        self._note("disconnected", peer)

    def dial_failed(self, peer: int) -> None:
        self._note("dial failed", peer)

    def measured(self, peer: int, rtt: float | None) -> None:
        self._note("measured", rtt)

    def neighbors(self) -> Iterable[int]:
        return self.links

    def messages_in(self, parcel: Any) -> Iterable[int]:
        return (parcel[1],)


def hosts(count: int = 2, seed: int = 1, **settings: float) -> tuple[Network, list[Diary]]:
    """`count` hosts, each pair 50 ms apart; a dial takes one round trip."""
    config = NetworkConfig(**{"nodes": count, "dial_round_trips": 1.0, **settings})  # type: ignore[arg-type]
    loop = EventLoop()
    network = Network(loop, UniformLatency(low=DELAY, high=DELAY), config, seed, Records(count))
    return network, [Diary(node, network) for node in range(count)]


def connected(count: int = 2, **settings: float) -> tuple[Network, list[Diary]]:
    network, nodes = hosts(count, **settings)
    for node in nodes[1:]:
        network.dial(nodes[0], node.id)
    network.loop.run(1.0)
    for node in nodes:
        node.seen.clear()
    return network, nodes


def test_a_dial_costs_round_trips_and_both_ends_learn_of_it() -> None:
    network, (a, b) = hosts()
    network.dial(a, 1)
    network.loop.run(1.0)
    assert a.seen == [(0.1, "connected", 1)]
    assert b.seen == [(0.1, "connected", 0)]
    assert list(a.outbound) == [1]
    assert not b.outbound


def test_dialling_twice_makes_one_connection_and_answers_both() -> None:
    network, (a, b) = hosts()
    network.dial(a, 1)
    network.dial(b, 0)
    network.loop.run(1.0)
    network.dial(a, 1)
    network.loop.run(2.0)
    assert a.of("connected") == [1, 1]
    assert len(a.links) == len(b.links) == 1


def test_a_dial_to_nobody_fails_after_the_timeout() -> None:
    network, (a, b) = hosts(dial_timeout=3.0)
    b.crash()
    network.dial(a, 1)
    network.loop.run(10.0)
    assert a.seen == [(3.0, "dial failed", 1)]


def test_behind_nat_one_can_dial_but_not_be_dialled() -> None:
    network, nodes = hosts(20, nat_share=0.5, dial_timeout=1.0)
    hidden = [node for node in nodes if not network.dialable(node.id)]
    public = [node for node in nodes if network.dialable(node.id)]
    assert hidden
    assert public
    network.dial(public[0], hidden[0].id)
    network.dial(hidden[0], public[1].id)
    network.loop.run(5.0)
    assert public[0].of("dial failed") == [hidden[0].id]
    assert public[1].of("connected") == [hidden[0].id]


def test_parcels_arrive_after_the_delay_and_in_order() -> None:
    network, (a, b) = connected()
    network.send(a, (1,), (0, 1), 100)
    network.send(a, (1,), (0, 2), 100)
    network.loop.run(2.0)
    assert b.seen == [(1.05, "received", (0, 1)), (1.05, "received", (0, 2))]


def test_jitter_never_reorders() -> None:
    network, (a, b) = connected(jitter=5.0)
    for number in range(100):
        network.send(a, (1,), (0, number), 100)
        network.loop.run(network.loop.now + 0.02)
    network.loop.run(9.0)
    assert [number for _, number in b.of("received")] == list(range(100))
    assert len({time for time, _, _ in b.seen}) > 5


def test_bandwidth_makes_size_cost_time() -> None:
    network, (a, b, c) = connected(3, uplink=1.0)
    network.send(a, (1, 2), (0, 1), 125_000)  # one megabit: one second each
    network.loop.run(10.0)
    assert b.seen[0][0] == pytest.approx(2.05)
    assert c.seen[0][0] == pytest.approx(3.05)


def test_bulk_goes_behind_all_else_and_peers_take_turns() -> None:
    network, (a, b, c) = connected(3, uplink=1.0)
    sent: list[str] = []
    for number in (0, 0, 1, 2, 1):  # What waits already isn't sent twice.
        for peer, name in ((b, "one"), (c, "two")):
            parcel = a.id, f"{name} {number}"
            note = partial(sent.append, parcel[1])
            network.send_in_bulk(a, peer.id, parcel, 12_500, (name, number), 0, note)
    network.loop.at(
        network.loop.now + 0.05, lambda _: network.send(a, (b.id,), (a.id, "now"), 125), 0
    )
    began = network.loop.now
    network.loop.run(began + 5.0)
    arrived = [round(t - began, 3) for t, kind, _ in b.seen if kind == "received"]
    # 0.1 s for each parcel in bulk; the small one waits for the one that was being sent.
    assert [parcel for _, parcel in b.of("received")] == ["one 0", "now", "one 1", "one 2"]
    assert arrived == pytest.approx([0.1 + DELAY, 0.101 + DELAY, 0.301 + DELAY, 0.501 + DELAY])
    assert [parcel for _, parcel in c.of("received")] == ["two 0", "two 1", "two 2"]
    assert sent == ["one 0", "two 0", "one 1", "two 1", "one 2", "two 2"]


def test_of_two_messages_for_a_peer_the_one_with_less_left_goes_first() -> None:
    network, (a, b, _) = connected(3, uplink=1.0)
    for name, count in (("long", 6), ("short", 3)):
        for number in range(count):
            parcel, more = (a.id, f"{name} {number}"), count - number - 1
            network.send_in_bulk(a, b.id, parcel, 12_500, (name, number), more, print)
    network.loop.run(network.loop.now + 5.0)
    # All is queued before the first one goes.
    short, long = [f"short {n}" for n in range(3)], [f"long {n}" for n in range(6)]
    assert [parcel for _, parcel in b.of("received")] == short + long


def test_bulk_that_is_forgotten_is_not_sent() -> None:
    network, (a, b, c) = connected(3, uplink=1.0)
    for peer in (b, c):
        for name in ("one", "two"):
            for number in range(2):
                parcel = a.id, f"{name} {number}"
                network.send_in_bulk(a, peer.id, parcel, 12_500, (name, number), 0, print)
    network.forget_bulk(a, b.id, {"one"})
    network.forget_bulk(a, c.id)
    network.loop.run(network.loop.now + 5.0)
    assert [parcel for _, parcel in b.of("received")] == ["two 0", "two 1"]
    assert not c.of("received")


def test_each_host_draws_its_own_uplink() -> None:
    network, nodes = connected(30, uplinks=(1.0, 2.0))
    assert {network.uplink_of(node.id) for node in nodes} == {1.0, 2.0}


def test_what_each_host_sent_is_counted() -> None:
    network, (a, b, _) = connected(3, uplinks=(1.0, 2.0))
    before = network.sent()
    network.send(a, (b.id,), "small", 100)
    network.send_in_bulk(a, b.id, "piece", 12_500, ("one", 0), 0, print)
    network.loop.run(network.loop.now + 1.0)
    assert network.sent()[a.id] - before.get(a.id, 0) == 12_600
    assert b.id not in network.sent()


def test_a_downlink_is_shared_by_all_that_send() -> None:
    network, (a, b, c) = connected(3, uplink=1.0, downlink=1.0)
    network.dial(b, c.id)
    network.loop.run(network.loop.now + 1.0)
    began = network.loop.now
    for sender in (a, b):
        network.send(sender, (c.id,), (sender.id, "big"), 12_500)
    network.loop.run(began + 5.0)
    arrived = [t - began for t, kind, _ in c.seen if kind == "received"]
    assert arrived == pytest.approx([0.1 + DELAY, 0.2 + DELAY], abs=1e-3)


def test_what_was_sent_before_a_close_still_arrives() -> None:
    network, (a, b) = connected()
    network.send(a, (1,), (0, 1), 10)
    network.send(b, (0,), (1, 2), 10)
    network.close(a, 1)
    network.loop.run(2.0)
    assert b.seen == [(1.05, "received", (0, 1)), (1.05, "disconnected", 0)]
    assert a.seen == [(1.0, "disconnected", 1)]  # and what b sent is lost


def test_a_crash_is_noticed_late_and_a_departure_after_one_delay() -> None:
    network, (a, b, c) = connected(3, crash_notice=2.0)
    b.crash()
    c.leave()
    network.send(a, (1,), (0, 1), 10)
    network.loop.run(5.0)
    assert a.seen == [(1.05, "disconnected", 2), (3.0, "disconnected", 1)]
    assert b.seen == c.seen == []


def test_a_host_that_comes_back_replaces_the_link_that_nobody_missed_yet() -> None:
    network, (a, b) = connected(crash_notice=5.0)
    b.crash()
    again = Diary(1, network)
    network.dial(again, 0)
    network.loop.run(9.0)
    assert a.seen == [(1.1, "disconnected", 1), (1.1, "connected", 1)]
    network.send(a, (1,), (0, 7), 10)
    network.loop.run(10.0)
    assert again.of("received") == [(0, 7)]
    assert b.seen == []


def test_a_partition_loses_messages_then_links_and_heals() -> None:
    network, (a, b, c) = connected(3, crash_notice=2.0, dial_timeout=0.5)
    network.partition({1: 1})
    network.send(a, (1, 2), (0, 1), 10)
    network.measure(a, 1)
    network.loop.run(4.0)
    assert b.of("received") == []
    assert c.of("received") == [(0, 1)]
    assert a.of("measured") == [None]
    assert a.of("disconnected") == [1]
    assert b.of("disconnected") == [0]
    assert network.records.lost_on_the_way == {(1, 1): None}
    network.dial(a, 1)
    network.loop.run(5.0)
    assert a.of("dial failed") == [1]
    network.heal()
    network.dial(a, 1)
    network.loop.run(6.0)
    assert a.of("connected") == [1]


def test_a_short_partition_is_not_noticed() -> None:
    network, (a, b) = connected(crash_notice=2.0)
    network.partition({1: 1})
    network.loop.run(2.0)
    network.heal()
    network.loop.run(9.0)
    assert a.seen == b.seen == []


def test_loss_has_its_rate_and_is_written_down() -> None:
    network, (a, b) = connected(loss=0.1)
    for number in range(2000):
        network.send(a, (1,), (0, number), 10)
    network.loop.run(5.0)
    got = {number for _, number in b.of("received")}
    assert 0.88 < len(got) / 2000 < 0.92
    lost = {number for number, _ in network.records.lost_on_the_way}
    assert got | lost == set(range(2000))
    assert network.records.drops == {"loss": len(lost)}


def test_round_trips_are_measured_over_a_connection_only() -> None:
    network, (a, _) = connected(dial_timeout=0.5)
    network.measure(a, 1)
    network.measure(a, 9)
    network.loop.run(3.0)
    assert a.of("measured") == [pytest.approx(0.1), None]


def test_wake_ups_come_once_at_the_earliest_time() -> None:
    network, (a, _) = hosts()
    for deadline in (0.5, 0.2, 0.3):
        a.wake_at(deadline)
    network.loop.run(1.0)
    assert a.seen == [(0.2, "timer", None)]
