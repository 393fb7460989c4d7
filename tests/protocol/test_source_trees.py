"""Trees of single sources in overlays where some nodes don't know them, and over restarts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import Effect, Send
from episub_router.protocol.messages import (
    Gossip,
    Graft,
    Join,
    LinkKind,
    Message,
    Neighbor,
    NeighborRole,
    Prune,
    Root,
)
from episub_router.protocol.params import BroadcastParams, EpisubParams
from episub_router.protocol.topic import Topic
from tests.protocol.helpers import sent
from tests.protocol.network import Network

DEFAULT_TREE_ONLY = EpisubParams(broadcast=BroadcastParams(source_trees=0))
AT_REST = 60.0


def mixed(size: int, older: set[int], seed: int) -> Network:
    """An overlay in which the nodes `older` run a version from before source trees."""
    network = Network(size, seed=seed)
    for node in older:
        network.add(node, DEFAULT_TREE_ONLY)

    def carried(sender: int, receiver: int, message: Message) -> Message:
        """What an older node reads and writes of a message."""
        if receiver in older:
            assert not isinstance(message, Root)
            if isinstance(message, Graft | Prune):
                assert not message.sources
                assert not message.standby
            if isinstance(message, Gossip):
                return replace(message, along=None)
        if sender in older and isinstance(message, Join | Neighbor):
            return replace(message, source_trees=False)
        return message

    network.carried = carried
    network.join_all()
    network.run(AT_REST)
    return network


def publish_in_turn(network: Network, sources: list[int], rounds: int) -> list[object]:
    ids: list[object] = []
    for number in range(rounds):
        for source in sources:
            ids.append((source, number))
            network.publish(source, ids[-1], source=source)
            network.run(0.2)
    network.run(10)
    return ids


# With some seeds a few newer nodes stay in the default tree of a source, and miss nothing.
@pytest.mark.parametrize("seed", [0, 2, 3])
@pytest.mark.parametrize("older", [{3}, {0}, set(range(0, 24, 3)), set(range(1, 24))])
def test_a_mixed_overlay_delivers_everything(older: set[int], seed: int) -> None:
    """One older node, the contact of all, a third of the nodes, all but one."""
    network = mixed(24, older, seed)
    sources = [0, 1, 2, 3, 4]

    ids = publish_in_turn(network, sources, 10)

    assert {id: missed for id in ids if (missed := network.missed(id))} == {}
    last = [id for id in ids if id[1] >= 5]  # type: ignore[index]
    assert sum(network.rmr(id) for id in last) / len(last) < 0.5
    newer = [source for source in sources if source not in older]
    if len(older) < 12:
        trees = [network.topics[node].broadcast.trees for node in network.live if node not in older]
        parents = [tree.parent for t in trees for _, tree in t.items() if not tree.own]
        assert len(parents) == (len(trees) - 1) * len(newer)
        assert not older & set(parents)  # type: ignore[arg-type]


def test_a_neighbour_whose_word_was_lost_on_the_way_is_one_all_the_same() -> None:
    """A JOIN that an older node passed on; ROOT shows that the joiner knows source trees."""
    network = Network(3)
    network.join_all()
    network.run(AT_REST)
    topic = network.topics[0]
    network.connections[frozenset((0, 9))] = 99
    network.feed(0, ev.Connected(9))
    network.feed(0, ev.Received(1, Join(9, 0, source_trees=False)))
    peers = topic.broadcast.push_peers
    assert list(peers.default_only) == [9]
    network.topics[9] = Topic(9, "t", EpisubParams(), network.rng)
    network.feed(0, ev.Received(9, Root()))
    assert list(peers.default_only) == []
    assert 9 in peers.in_source_trees


def roots(effects: list[Effect]) -> list[int]:
    return [
        root.round
        for effect in effects
        if isinstance(effect, Send) and isinstance(effect.message, Root)
        for root in effect.message.roots
    ]


def test_rounds_go_on_when_a_topic_is_left_and_joined_again() -> None:
    """Others remember the last round for two minutes, and ignore lower ones."""
    topic = Topic("me", "t", EpisubParams(), Network(0).rng, epoch=1000)
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
    assert seen[0] == 1001


def test_a_node_without_source_trees_says_so() -> None:
    network = Network(2, DEFAULT_TREE_ONLY)
    network.join_all()
    network.run(AT_REST)
    assert [*network.topics[0].broadcast.push_peers.default_only] == [1]
    network.publish(0, "m", source=0)
    network.run(1)
    assert network.missed("m") == set()
    assert network.sent["Root"] == 0
    effects = network.feed(1, ev.Received(0, Gossip("n", 1, "payload", 0, 5, 5)))
    assert [message for _, message in sent(effects) if isinstance(message, Root)] == []
    assert len(network.topics[1].broadcast.trees) == 0
