"""Events in, effects out: order, answers to dials, timers, topics that come and go."""

from __future__ import annotations

from itertools import pairwise
from random import Random
from typing import Any

import pytest
import trio
from libp2p.peer.id import ID
from trio.testing import MockClock

from episub_router import BroadcastParams, EpisubParams
from episub_router.net.counters import Counters, Ordinary, Reason
from episub_router.net.events import NeighborDown, NeighborUp, TopicEvent
from episub_router.net.peers import PeerListener, RemotePeer
from episub_router.net.topics import JoinedTopic, TopicDriver
from episub_router.protocol import effects as ef
from episub_router.protocol import events as ev
from episub_router.protocol import messages as m
from episub_router.protocol.effects import DropReason
from episub_router.protocol.topic import Topic
from tests.net.fakes import Lab

ME, PEER, OTHER = b"me", b"peer", b"other"
REQUEST = m.Neighbor(m.NeighborRole.REQUEST, 0)


class Recorder(PeerListener):
    """Notes what the driver asks of the parts around it."""

    def __init__(self) -> None:
        self.log: list[tuple[object, ...]] = []
        self.protected: set[tuple[bytes, str]] = set()

    def dial_wanted(self, peer: RemotePeer, for_others: bool) -> None:
        self.log.append(("dial", peer.key))

    def send(self, peer: RemotePeer, topic: str, messages: tuple[m.Message, ...]) -> bool:
        kinds = (type(message).__name__ for message in messages)
        self.log.append(("send", peer.key, topic, *kinds))
        return True

    def release(self, peer: RemotePeer) -> None:
        self.log.append(("release", peer.key))

    def emit(self, event: TopicEvent) -> None:
        if isinstance(event, NeighborUp | NeighborDown):
            what = "up" if isinstance(event, NeighborUp) else "down"
            self.log.append((what, event.topic, event.peer.to_bytes()))

    def protect(self, peer: ID, tag: str) -> None:
        self.protected.add((peer.to_bytes(), tag))

    def unprotect(self, peer: ID, tag: str) -> None:
        self.protected.discard((peer.to_bytes(), tag))

    def take(self) -> list[tuple[object, ...]]:
        log, self.log = self.log, []
        return log


class Harness:
    def __init__(self) -> None:
        self.actions: Any = Recorder()
        self.counters = Counters()
        self.lab = Lab()
        self.lab.peers.release = self.actions.release  # type: ignore[method-assign]
        unused: Any = None
        self.joined: dict[str, JoinedTopic] = {}
        self.driver = TopicDriver(
            ME,
            EpisubParams(),
            self.joined,
            rng=Random(1),
            counters=self.counters,
            peers=self.lab.peers,
            outbound=self.actions,
            pinger=unused,
            assembled=unused,
            network=self.actions,
            events=self.actions,
            group_of=lambda peer: None,
            secret=b"ours",
        )
        self.lab.peers.listen(self.driver)
        self.lab.peers.listen(self.actions)

    def make_writable(self, peer: bytes) -> None:
        record = self.lab.peers[peer]
        if not self.lab.peers.is_writable(record):
            self.lab.make_writable(record)

    def neighbor(self, peer: bytes = PEER, topic: str = "t") -> None:
        """Let `peer` become a neighbour, and forget how."""
        self.make_writable(peer)
        self.driver.feed(topic, ev.Received(peer, REQUEST))
        assert ("up", topic, peer) in self.actions.take()

    async def announces_in_time(self) -> None:
        """To a lazy neighbour, what was pushed to an eager one."""
        self.neighbor()
        self.neighbor(OTHER)
        self.driver.feed("t", ev.Received(OTHER, m.Prune()))
        self.driver.feed("t", ev.Publish(b"id", None, 1))
        assert self.actions.take() == [("send", PEER, "t", "Gossip")]
        await trio.sleep(BroadcastParams().lazy_interval)
        assert ("send", OTHER, "t", "IHave") in self.actions.take()


async def test_a_dial_to_a_writable_peer_is_answered_at_once() -> None:
    harness = Harness()
    harness.make_writable(PEER)
    harness.driver.join("t", (PEER,))
    assert harness.actions.take() == [("send", PEER, "t", "GetNodes")]


async def test_each_topic_that_waits_for_a_dial_is_answered() -> None:
    harness = Harness()
    harness.driver.join("t", (PEER,))
    harness.driver.join("u", (PEER,))
    assert harness.actions.take() == [("dial", PEER)]
    harness.make_writable(PEER)
    assert harness.actions.take() == [
        ("send", PEER, "t", "GetNodes"),
        ("send", PEER, "u", "GetNodes"),
    ]
    assert not harness.lab.peers[PEER].topics_dialling


async def test_a_failed_dial_is_reported_to_the_topics_that_waited() -> None:
    harness = Harness()
    steps: list[tuple[str, list[object]]] = []

    class Watching:
        def stepped(self, machine: Topic, effects: list[ef.Effect]) -> None:
            steps.append((machine.name, [*effects]))

        def measured(self, peer: bytes, rtt: float | None) -> None: ...

    harness.driver.join("t", (PEER,))
    harness.driver.join("u", ())
    watching: Any = Watching()
    harness.driver.trace = watching
    peer = harness.lab.peers[PEER]
    harness.driver.dial_failed(peer)
    harness.driver.dial_failed(peer)
    assert [topic for topic, _ in steps] == ["t"]


async def test_a_topic_joined_later_knows_which_peers_are_writable() -> None:
    harness = Harness()
    harness.make_writable(PEER)
    harness.make_writable(OTHER)
    harness.lab.disconnect(harness.lab.peers[OTHER])
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

    def send(peer: RemotePeer, topic: str, messages: tuple[m.Message, ...]) -> bool:
        """There is no room for payloads."""
        nonlocal depth
        depth += 1
        assert depth == 1
        Recorder.send(harness.actions, peer, topic, messages)
        driver.feed(topic, ev.ContactsFound(()))
        depth -= 1
        return not isinstance(messages[0], m.Gossip)

    harness.actions.send = send
    driver.feed("t", ev.Publish(b"id", None, 1))
    assert harness.actions.take() == [("send", PEER, "t", "Gossip")]
    topic = driver.machine("t")
    assert topic is not None
    assert topic.broadcast.next_deadline() <= trio.current_time() + 1


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
    assert harness.counters[Ordinary.DELIVERED] == 4


async def test_a_lost_peer_is_reported_to_all_topics() -> None:
    harness = Harness()
    for topic in ("t", "u"):
        harness.driver.join(topic, ())
        harness.neighbor(topic=topic)
    harness.lab.disconnect(harness.lab.peers[PEER])
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
        await harness.announces_in_time()
        nursery.cancel_scope.cancel()


async def test_of_a_topic_that_was_left_nothing_stays() -> None:
    """And the goodbye goes before its peer is released."""
    harness = Harness()
    harness.driver.join("t", ())
    harness.neighbor()
    harness.driver.leave("t", b"")
    assert harness.actions.take() == [
        ("down", "t", PEER),
        ("send", PEER, "t", "Disconnect"),
        ("release", PEER),
    ]
    assert harness.joined == {}
    assert harness.driver.hops("t") == {}


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
    harness.make_writable(PEER)
    harness.driver.feed("t", ev.Received(PEER, REQUEST))
    assert harness.actions.take() == []


async def test_at_the_end_no_connection_stays_protected() -> None:
    harness = Harness()
    for topic in ("t", "u"):
        harness.driver.join(topic, ())
        harness.neighbor(topic=topic)
    assert harness.actions.protected == {(PEER, "episub/t"), (PEER, "episub/u")}
    harness.driver.leave("u", b"")
    assert harness.actions.protected == {(PEER, "episub/t")}
    harness.driver.stop()
    assert not harness.actions.protected


async def test_drops_of_the_core_are_counted_under_its_reasons() -> None:
    harness = Harness()
    harness.driver.join("t", ())
    harness.driver.feed("t", ev.Received(PEER, m.Graft()))
    assert harness.counters[DropReason.NOT_NEIGHBOR] == 1
    assert harness.counters.view() == {"not-neighbor": 1}


async def test_at_rest_one_wake_up_serves_several_timers(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And timers are exact again with the next event."""
    harness = Harness()
    steps: list[float] = []
    handle_timer = Topic.handle_timer

    def counted(topic: Topic, now: float) -> list[ef.Effect]:
        steps.append(now)
        return handle_timer(topic, now)

    monkeypatch.setattr(Topic, "handle_timer", counted)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(harness.driver.run)
        harness.driver.join("t", ())
        await trio.sleep(35)
        steps.clear()
        await trio.sleep(60)
        assert min(b - a for a, b in pairwise(steps)) >= 5 - 1e-6
        await harness.announces_in_time()
        nursery.cancel_scope.cancel()
