"""Events in, effects out: order, answers to dials, timers, topics that come and go."""

from __future__ import annotations

from random import Random

import pytest
import trio
from trio.testing import MockClock

from episub_router import BroadcastParams, EpisubParams, RouterParams
from episub_router.net.counters import Counters, Reason
from episub_router.net.driver import Driver
from episub_router.protocol import events as ev
from episub_router.protocol import messages as m
from episub_router.protocol.effects import DropReason

ME, PEER, OTHER = b"me", b"peer", b"other"
REQUEST = m.Neighbor(m.NeighborRole.REQUEST, 0)


class Recorder:
    """Actions that only note what they were asked for."""

    def __init__(self) -> None:
        self.log: list[tuple[object, ...]] = []

    def send(self, peer: bytes, topic: str, messages: tuple[m.Message, ...]) -> None:
        self.log.append(("send", peer, topic, *(type(message).__name__ for message in messages)))

    def dial(self, peer: bytes, for_others: bool = False) -> None:
        self.log.append(("dial", peer))

    def release(self, peer: bytes) -> None:
        self.log.append(("release", peer))

    def measure(self, peer: bytes) -> None:
        self.log.append(("measure", peer))

    def group_of(self, peer: object) -> None:
        return None

    def neighbor_up(self, topic: str, peer: bytes) -> None:
        self.log.append(("up", topic, peer))

    def neighbor_down(self, topic: str, peer: bytes) -> None:
        self.log.append(("down", topic, peer))

    def take(self) -> list[tuple[object, ...]]:
        log, self.log = self.log, []
        return log


class Harness:
    def __init__(self, router_params: RouterParams | None = None) -> None:
        self.actions = Recorder()
        self.counters = Counters()
        self.driver = Driver(
            ME,
            EpisubParams(),
            router_params or RouterParams(),
            Random(1),
            self.counters,
            self.actions,
        )

    def neighbor(self, peer: bytes = PEER, topic: str = "t") -> None:
        """Let `peer` become a neighbour, and forget how."""
        self.driver.writable(peer)
        self.driver.feed(topic, ev.Received(peer, REQUEST))
        assert ("up", topic, peer) in self.actions.take()


async def test_a_dial_to_a_writable_peer_is_answered_at_once() -> None:
    harness = Harness()
    harness.driver.writable(PEER)
    harness.driver.join("t", (PEER,))
    assert harness.actions.take() == [("send", PEER, "t", "GetNodes")]


async def test_each_topic_that_waits_for_a_dial_is_answered() -> None:
    harness = Harness()
    harness.driver.join("t", (PEER,))
    harness.driver.join("u", (PEER,))
    assert harness.actions.take() == [("dial", PEER), ("dial", PEER)]
    harness.driver.writable(PEER)
    assert harness.actions.take() == [
        ("send", PEER, "t", "GetNodes"),
        ("send", PEER, "u", "GetNodes"),
    ]
    assert harness.driver.is_writable(PEER)


async def test_a_failed_dial_is_told_to_those_that_waited() -> None:
    harness = Harness()
    harness.driver.join("t", (PEER,))
    harness.driver.join("u", ())
    steps = []
    step = harness.driver._step
    harness.driver._step = lambda topic, event: (  # type: ignore[method-assign]
        steps.append((topic.name, event)),
        step(topic, event),
    )[1]
    harness.driver.unreachable(PEER)
    harness.driver.unreachable(PEER)
    assert steps == [("t", ev.DialFailed(PEER))]


async def test_a_topic_joined_later_knows_who_is_writable() -> None:
    harness = Harness()
    harness.driver.writable(PEER)
    harness.driver.writable(OTHER)
    harness.driver.down(OTHER)
    harness.driver.join("t", (PEER, OTHER))
    assert sorted(harness.actions.take(), key=str) == [
        ("dial", OTHER),
        ("send", PEER, "t", "GetNodes"),
    ]


async def test_events_caused_by_effects_wait_for_their_turn() -> None:
    harness = Harness()
    driver = harness.driver
    driver.join("t", ())
    harness.neighbor()
    depth = 0

    def send(peer: bytes, topic: str, messages: tuple[m.Message, ...]) -> None:
        nonlocal depth
        depth += 1
        assert depth == 1
        for message in messages:
            if isinstance(message, m.Gossip):
                driver.feed(topic, ev.PayloadDropped(peer, message.id, message.hops))
        Recorder.send(harness.actions, peer, topic, messages)
        depth -= 1

    harness.actions.send = send  # type: ignore[method-assign]
    driver.feed("t", ev.Publish(b"id", None, 1))
    assert harness.actions.take() == [("send", PEER, "t", "Gossip")]
    topic = driver.joined("t")
    assert topic is not None
    assert topic.broadcast.next_deadline() <= trio.current_time() + 1


async def test_control_messages_to_one_peer_share_a_frame_and_release_comes_last() -> None:
    harness = Harness()
    harness.driver.join("t", ())
    harness.neighbor()
    harness.driver.leave("t", b"")
    assert harness.actions.take() == [
        ("down", "t", PEER),
        ("send", PEER, "t", "Disconnect"),
        ("release", PEER),
    ]


async def test_deliveries_are_counted_by_hops() -> None:
    harness = Harness()
    harness.driver.join("t", ())
    harness.driver.feed("t", ev.Publish(b"own", None, 1))
    for number in range(3):
        message_id = b"%d" % number
        harness.driver.feed("t", ev.PayloadArrived(PEER, message_id, 2))
        harness.driver.feed("t", ev.PayloadAccepted(PEER, message_id, None, 1))
        harness.driver.feed("t", ev.PayloadAccepted(PEER, message_id, None, 1))
    assert harness.driver.hops("t") == {0: 1, 2: 3}
    assert harness.counters[Reason.DELIVERED] == 4


async def test_a_lost_peer_is_told_to_all_topics() -> None:
    harness = Harness()
    for topic in ("t", "u"):
        harness.driver.join(topic, ())
        harness.neighbor(topic=topic)
    harness.driver.down(PEER)
    log = harness.actions.take()
    assert ("down", "t", PEER) in log
    assert ("down", "u", PEER) in log


async def test_timers_fire_when_due_and_earlier_ones_wake_the_loop(
    autojump_clock: MockClock,
) -> None:
    harness = Harness()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.driver.run)
        await trio.sleep(1)
        harness.driver.join("t", ())
        harness.neighbor()
        harness.neighbor(OTHER)
        harness.driver.feed("t", ev.Received(OTHER, m.Prune()))
        harness.driver.feed("t", ev.Publish(b"id", None, 1))
        assert harness.actions.take() == [("send", PEER, "t", "Gossip")]
        await trio.sleep(BroadcastParams().lazy_interval)
        assert ("send", OTHER, "t", "IHave") in harness.actions.take()
        nursery.cancel_scope.cancel()


async def test_one_who_comes_back_has_not_forgotten_what_it_saw(
    autojump_clock: MockClock,
) -> None:
    harness = Harness()
    driver = harness.driver

    def deliver() -> int:
        before = harness.counters[Reason.DELIVERED]
        driver.feed("t", ev.PayloadArrived(PEER, b"id", 1))
        driver.feed("t", ev.PayloadAccepted(PEER, b"id", None, 1))
        return harness.counters[Reason.DELIVERED] - before

    async with trio.open_nursery() as nursery:
        nursery.start_soon(driver.run)
        driver.join("t", ())
        assert deliver() == 1
        driver.leave("t", b"")
        assert driver.joined("t") is None
        driver.join("t", ())
        assert deliver() == 0
        driver.leave("t", b"")
        await trio.sleep(EpisubParams().broadcast.seen_ttl + 1)
        assert driver._topics == {}
        nursery.cancel_scope.cancel()


async def test_left_topics_are_bounded() -> None:
    harness = Harness(RouterParams(left_topics=3))
    for number in range(10):
        harness.driver.join(f"t{number}", ())
        harness.driver.leave(f"t{number}", b"")
    assert list(harness.driver._topics) == ["t7", "t8", "t9"]
    assert list(harness.driver._left) == ["t7", "t8", "t9"]


async def test_a_bug_in_a_machine_is_counted_and_logged_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    harness = Harness()
    harness.driver.join("t", ())
    unhashable: list[object] = []
    for _ in range(3):
        harness.driver.feed("t", ev.PayloadArrived(PEER, unhashable, 1))
    assert harness.counters[Reason.ERROR] == 3
    assert len(caplog.records) == 1
    harness.neighbor()


async def test_nothing_happens_after_the_end() -> None:
    harness = Harness()
    harness.driver.join("t", ())
    harness.driver.stop()
    harness.driver.join("u", (PEER,))
    harness.driver.writable(PEER)
    harness.driver.feed("t", ev.Received(PEER, REQUEST))
    assert harness.actions.take() == []


async def test_drops_of_the_core_are_counted_under_its_reasons() -> None:
    harness = Harness()
    harness.driver.join("t", ())
    harness.driver.feed("t", ev.Received(PEER, m.Graft()))
    assert harness.counters[DropReason.NOT_NEIGHBOR] == 1
    assert harness.counters.view() == {"not-neighbor": 1}
