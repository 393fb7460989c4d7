"""Nodes that can dial and can't be dialled: retries with lower TTLs (E05, E08, E20)."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import DropReason, Send
from episub_router.protocol.hyparview.shuffle import SHUFFLE_TIMEOUT
from episub_router.protocol.messages import Neighbor, NeighborRole, Shuffle, ShuffleReply
from episub_router.protocol.params import EpisubParams, MembershipParams
from episub_router.protocol.topic import Topic
from tests.protocol.network import Network

PARAMS = MembershipParams()


def shuffles(topic: Topic, until: float) -> list[tuple[float, int]]:
    """When the node shuffles until then, and with what TTL; nobody answers."""
    found = []
    while topic.next_deadline() <= until:
        now = topic.next_deadline()
        for effect in topic.handle_timer(now):
            if isinstance(effect, Send):
                if isinstance(effect.message, Shuffle):
                    found.append((now, effect.message.ttl))
                elif isinstance(effect.message, Neighbor):
                    answer = Neighbor(NeighborRole.LIST, 7)
                    topic.handle(ev.Received(effect.peer, answer), now)
    return found


def with_neighbor() -> Topic:
    topic = Topic(0, "t", EpisubParams(membership=MembershipParams(shuffle_interval=30)), Random(1))
    topic.handle(ev.JoinOverlay(), 0.0)
    topic.handle(ev.Received(1, Neighbor(NeighborRole.REQUEST, 7)), 0.0)
    return topic


def test_a_shuffle_without_a_reply_is_tried_with_lower_ttls() -> None:
    """E20: down to zero, where the neighbour answers over the connection that stands. So it does
    at rest, until a link fails."""
    topic = with_neighbor()
    tries = shuffles(topic, 400.0)
    assert [ttl for _, ttl in tries] == [6, 3, 1, 0, *[0] * (len(tries) - 4)]
    assert len(tries) > 5
    topic.handle(ev.Received(2, Neighbor(NeighborRole.REQUEST, 7)), 400.0)
    topic.handle(ev.PeerDown(2), 400.0)
    assert next(ttl for _, ttl in shuffles(topic, 430.0)) == 6
    times = [time for time, _ in tries[:4]]
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses == pytest.approx([SHUFFLE_TIMEOUT] * 3)


def test_an_answered_shuffle_is_not_repeated() -> None:
    """E20: with a reply, the next shuffle waits for its period."""
    topic = with_neighbor()
    while not (found := shuffles(topic, topic.next_deadline())):
        pass
    topic.handle(ev.Received(9, ShuffleReply((10, 11))), found[0][0] + 1)
    # One id was offered, our own, so one entry is taken.
    assert set(topic.membership.passive) == {10}
    assert shuffles(topic, found[0][0] + 3 * SHUFFLE_TIMEOUT) == []


@pytest.mark.slow
def test_the_undiallable_keep_a_fresh_passive_view() -> None:
    """E05, E08, E20: half the nodes can only dial: they get their links, and their passive views
    fill all the same."""
    network = Network(60, seed=1)
    network.unreachable = set(range(30, 60))
    network.join_all()
    network.run(300)
    assert network.components() == 1
    assert network.drops[DropReason.UNREACHABLE] > 0
    known = [len(network.topics[node].membership.passive) for node in network.live]
    assert min(known) >= 5
    assert sum(known) >= 15 * len(known)
    network.publish(45, "m")
    network.run(10)
    assert network.missed("m") == set()
