"""Trees of sources over restarts, and without them."""

from __future__ import annotations

from episub_router.protocol import events as ev
from episub_router.protocol.effects import Effect, Send
from episub_router.protocol.messages import LinkKind, Neighbor, NeighborRole, Root
from episub_router.protocol.params import BroadcastParams, EpisubParams
from episub_router.protocol.topic import Topic
from tests.protocol.network import Network


def roots(effects: list[Effect]) -> list[int]:
    return [
        root.round
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, Root)
        for root in effect.message.roots
    ]


def test_rounds_go_on_when_a_topic_is_left_and_joined_again() -> None:
    """Others remember the last round for two minutes, and ignore lower ones."""
    topic = Topic("me", "t", EpisubParams(), Network(0).rng, clock=1000.0)
    request = Neighbor(NeighborRole.REQUEST, 1, LinkKind.RANDOM)
    seen: list[int] = []
    for turn in range(2):
        topic.handle(ev.JoinOverlay(("peer",)), 10.0 * turn)
        topic.handle(ev.Connected("peer"), 10.0 * turn)
        topic.handle(ev.Received("peer", request), 10.0 * turn)
        for number in range(3):
            event = ev.Publish((turn, number), "payload", source="me")
            seen += roots(topic.handle(event, 10.0 * turn + 2.0 * number))
        topic.handle(ev.LeaveOverlay(), 10.0 * turn + 9)
    assert seen == sorted(set(seen))
    assert len(seen) >= 2
    assert seen[0] == 1000


def test_without_trees_of_sources_the_shared_one_carries_everything() -> None:
    network = Network(24, EpisubParams(broadcast=BroadcastParams(source_trees=0)))
    network.join_all()
    network.run(60)
    for number in range(20):
        network.publish(number % 3, number, source=number % 3)
        network.run(0.5)
    network.run(5)
    assert all(network.missed(number) == set() for number in range(20))
    assert network.sent["Root"] == 0
    assert sum(network.rmr(number) for number in range(10, 20)) < 5
