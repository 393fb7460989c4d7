"""Large messages over small overlays: all get them, once, whatever fails on the way."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from episub_router.protocol import events as ev
from episub_router.protocol.effects import DropReason
from episub_router.protocol.messages import IHave, Message, MessageSummary
from episub_router.protocol.params import BroadcastParams, EpisubParams
from episub_router.protocol.piece_messages import Piece, PieceGraft
from episub_router.protocol.pieces import Pieces
from episub_router.protocol.pieces.narrow_tree import SHORT
from tests.protocol.network import Network

PIECES = EpisubParams()
WHOLE = EpisubParams(broadcast=BroadcastParams(piece_threshold=0))
DATA = Random(1).randbytes(200_000)


def overlay(size: int, seed: int = 1, delay: float = 0.02) -> Network:
    network = Network(size, PIECES, seed=seed, delay=delay)
    network.join_all()
    network.run(60.0)
    return network


def machine(network: Network, node: int) -> Pieces:
    pieces = network.topics[node].pieces
    assert pieces is not None
    return pieces


def assert_all_have(network: Network, id: object, data: bytes = DATA) -> None:
    assert not network.missed(id)
    assert all(network.payloads[node, id] == data for node in network.live)


def way_to(network: Network, node: int, source: int) -> list[int]:
    """The nodes from `node` to the root of its tree, or until one comes again."""
    way: list[int] = []
    at: Any = node
    while at is not None and at not in way:
        way.append(at)
        tree = machine(network, at).trees.get(source)
        at = None if tree is None else tree.parent
        assert at is None or way[-1] in machine(network, at).trees.get(source).children  # type: ignore[union-attr]
    return way if at is None else [*way, at]


def test_all_get_the_message_once_and_each_piece_once() -> None:
    network = overlay(30)
    for number in range(3):
        network.sent.clear()
        network.publish_in_pieces(3, number, DATA)
        network.run(10.0)
        assert_all_have(network, number)
        count = next(iter(machine(network, 3).transfers.known())).preamble.count
        assert network.sent["Piece"] == 29 * count
        assert not network.copies


def test_a_second_message_right_after_the_first_is_no_later() -> None:
    """It is whole at the source before the first has built the tree."""
    network = overlay(30)
    network.publish_in_pieces(3, "a", DATA)
    network.run(0.02)
    network.publish_in_pieces(3, "b", DATA)
    network.run(0.8)
    assert_all_have(network, "b")
    count = next(iter(machine(network, 3).transfers.known())).preamble.count
    assert network.sent["Piece"] == 2 * 29 * count


@pytest.mark.parametrize(("data", "most"), [(DATA, 3), (bytes(SHORT + 1), 2)])
def test_no_node_has_more_children_than_it_may(data: bytes, most: int) -> None:
    network = overlay(30)
    network.publish_in_pieces(3, "a", data)
    network.run(10.0)
    children = 0
    for node in network.live:
        tree = machine(network, node).trees.get(3)
        assert tree is not None
        assert len(tree.children) <= most
        assert tree.own or tree.parent is not None
        children += len(tree.children)
        assert way_to(network, node, 3)[-1] == 3
    assert children == 29


@pytest.mark.parametrize("seed", range(2))
def test_parents_that_go_between_messages_are_replaced_before_the_next_one(seed: int) -> None:
    network = overlay(40, seed)
    network.publish_in_pieces(3, "a", DATA)
    network.run(10.0)
    parents = [n for n in network.live if n != 3 and machine(network, n).trees.get(3).children]  # type: ignore[union-attr]
    network.kill(parents[:8])
    network.run(30.0)
    assert all(way_to(network, node, 3)[-1] == 3 for node in network.live)
    network.sent.clear()
    lacking: list[PieceGraft] = []

    def carried(a: int, b: int, message: Message) -> Message:
        if isinstance(message, PieceGraft) and any(missing for _, missing in message.wants):
            lacking.append(message)
        return message

    network.carried = carried
    network.publish_in_pieces(3, "b", DATA)
    network.run(2.0)
    assert_all_have(network, "b")
    count = next(iter(machine(network, 3).transfers.known())).preamble.count
    assert network.sent["Piece"] == 31 * count
    assert not lacking


@pytest.mark.parametrize("seed", range(1, 4))
def test_parents_that_die_in_mid_transfer_cost_no_piece_twice(seed: int) -> None:
    network = overlay(30, seed)
    network.publish_in_pieces(3, "a", DATA)
    network.run(10.0)
    inner = [n for n in network.live if n != 3 and machine(network, n).trees.get(3).children]  # type: ignore[union-attr]
    victims = inner[:4]
    got: Counter[tuple[int, int]] = Counter()

    def carried(a: int, b: int, message: Message) -> Message:
        if isinstance(message, Piece):
            got[b, message.index] += 1
            if len(got) > 100 and victims:
                network.at(network.now, lambda: network.kill([victims.pop()]) if victims else None)
        return message

    network.carried = carried
    network.publish_in_pieces(3, "b", DATA)
    network.run(20.0)
    assert not victims
    assert_all_have(network, "b")
    assert sum(got.values()) <= 1.2 * len(got)


@pytest.mark.parametrize("loss", [0.01, 0.1])
def test_lost_frames_are_made_up_for(loss: float) -> None:
    network = overlay(20)
    draws = Random(7)
    network.cut = lambda a, b: draws.random() < loss
    for number in range(3):
        network.publish_in_pieces(number, number, DATA)
    network.run(40.0)
    network.cut = lambda a, b: False
    network.run(20.0)
    for number in range(3):
        assert_all_have(network, number)


def test_one_that_comes_during_a_transfer_gets_it_too() -> None:
    network = overlay(15)
    network.publish_in_pieces(3, "a", DATA)
    network.add(99)
    network.join(99, 0)
    network.run(20.0)
    assert_all_have(network, "a")


def test_neighbors_that_take_no_pieces_get_whole_messages() -> None:
    network = overlay(20)
    for node in (50, 51, 52):
        network.add(node, WHOLE)
        network.join(node, 0)
    network.run(20.0)
    for id in "ab":
        network.publish_in_pieces(3, id, DATA)
        network.run(10.0)
        assert_all_have(network, id)
    # Whole over the links of the three, and once the default tree is pruned over few of them.
    assert 3 <= network.copies["b"] < network.copies["a"] <= 80


def test_whole_messages_of_one_that_takes_no_pieces_reach_all() -> None:
    network = overlay(15)
    network.add(50, WHOLE)
    network.join(50, 0)
    network.run(20.0)
    network.publish(50, "a", len(DATA), 50)
    network.run(5.0)
    assert not network.missed("a")


def given_up(nodes: int) -> Network:
    """The source of "a" dies with its first pieces on the way, and the others wait in vain."""
    network = overlay(nodes)
    network.publish_in_pieces(3, "a", DATA)
    network.run(0.05)
    network.kill([3])
    network.run(60.0)
    return network


def test_what_was_given_up_in_pieces_is_asked_for_whole() -> None:
    """By nodes whose neighbour takes no pieces, and has the message."""
    network = given_up(15)
    lacking = network.missed("a")
    assert lacking
    network.add(50, WHOLE)
    network.join(50, 0)
    network.run(10.0)
    announcement = ev.Received(50, IHave((MessageSummary("a", 1),)))
    network.cut = lambda a, b: True
    network.publish(50, "a", len(DATA), 50)
    network.run(1.0)
    network.cut = lambda a, b: False
    notified = network.neighbors(50)
    assert lacking - notified
    for node in notified:
        network.feed(node, announcement)
    network.run(20.0)
    assert not network.missed("a")


def test_what_nobody_has_is_given_up() -> None:
    network = given_up(10)
    got = network.delivered["a"]
    waiting = [node for node in network.live if not got[node]]
    assert waiting
    assert network.drops[DropReason.MESSAGE_LOST] >= len(waiting)
    assert all(machine(network, node).transfers.unfinished() == [] for node in network.live)
