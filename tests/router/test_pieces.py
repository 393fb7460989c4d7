"""Large messages in pieces, over real hosts: TCP, Noise, Yamux."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from random import Random
from typing import Any

import pytest
import trio
from libp2p.abc import ISubscriptionAPI
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V12
from libp2p.pubsub.pubsub import Pubsub

from episub_router import (
    BroadcastParams,
    EpisubParams,
    LargeProgress,
    LargeSent,
    MessageTooLarge,
    ResilientPubsub,
    RouterParams,
    SignaturePolicy,
)
from episub_router.net.counters import Ordinary, Reason
from episub_router.net.events import EventStream
from episub_router.net.peers import RemotePeer
from episub_router.protocol.effects import DropReason
from episub_router.protocol.messages import Message
from episub_router.protocol.piece_messages import Piece, PieceAnnounce
from episub_router.protocol.pieces.cutting import LARGEST_PIECE
from episub_router.protocol.standing import BAN_BELOW
from tests.fallback.mixed import episub, network, stock, subscribe
from tests.hosts import PATIENCE, Node, eventually, receive
from tests.router.overlays import TOPIC, count, neighbors, overlay_of, parts

pytestmark = pytest.mark.hosts

KIB = 1024
WHOLE = EpisubParams(broadcast=BroadcastParams(piece_threshold=0))
LARGE = Random(1).randbytes(1_500_000)


async def publish(
    node: Node, subscriptions: Sequence[ISubscriptionAPI], data: bytes = LARGE
) -> None:
    """Publish `data`, and see that each of `subscriptions` has it next."""
    await node.pubsub.publish(TOPIC, data)
    for subscription in subscriptions:
        (message,) = await receive(subscription)
        assert message.data == data


def children(node: Node, source: Node) -> list[bytes]:
    """Those that `node` pushes pieces of `source` to."""
    machine = parts(node).topics.machine(TOPIC)
    assert machine is not None
    assert machine.pieces is not None
    trees = machine.pieces.trees.values()
    (tree,) = [tree for tree in trees if tree.own == (node is source)]
    return [child for child in tree.children if isinstance(child, bytes)]


def standing(node: Node, other: Node) -> float:
    machine = parts(node).topics.machine(TOPIC)
    assert machine is not None
    return machine.broadcast.standings.of(other.id.to_bytes(), trio.current_time())


@pytest.mark.parametrize("pubsub_class", [Pubsub, ResilientPubsub])
async def test_a_message_beyond_an_rpc_arrives_once_and_whole(
    pubsub_class: type[Pubsub],
) -> None:
    async with overlay_of(6, pubsub_class=pubsub_class) as (nodes, readers):
        # A neighbour whose first offer is under way is sent the message whole, which is too large.
        await eventually(lambda: all(takers(node) == neighbors(node) for node in nodes))
        await publish(nodes[0], readers)
        await publish(nodes[0], readers, b"small")
        pieces = -(-(len(LARGE) + 150) // LARGEST_PIECE)
        assert count(nodes, Ordinary.ASSEMBLED) == 5
        # More where a busy machine is late, and hosts ask again; tests/protocol/pieces counts them.
        assert count(nodes, Ordinary.PIECES_RECEIVED) >= 5 * pieces
        assert count(nodes, Ordinary.PAYLOADS_SENT) >= 5  # the small one
        assert count(nodes, Reason.OVERSIZE) == 0
        assert count(nodes, Reason.ERROR) == 0


class Liar:
    """Has `node` send bad pieces: other bytes, too many bytes, pieces that don't exist."""

    def __init__(self, node: Node) -> None:
        self.sent = 0
        self._outbound = parts(node).outbound
        self._send = self._outbound.send
        self._send_piece = self._outbound.send_piece
        self._outbound.send = self.send  # type: ignore[method-assign]
        self._outbound.send_piece = self.send_piece  # type: ignore[method-assign]

    def send_piece(self, peer: RemotePeer, topic: str, piece: Piece, more: int = 0) -> bool:
        self.sent += 1
        for lie in (
            replace(piece, data=bytes(piece.size)),
            replace(piece, data=bytes(piece.size + 1), size=piece.size + 1),
            replace(piece, index=511),
            replace(piece, id=b"of nothing"),
        ):
            self._send_piece(peer, topic, lie, more)
        return True

    def send(self, peer: RemotePeer, topic: str, messages: tuple[Message, ...]) -> bool:
        for message in messages:
            if isinstance(message, PieceAnnounce):
                forged = replace(message.preamble, root=bytes(32))
                self._send(peer, topic, (replace(message, preamble=forged),))
        return self._send(peer, topic, messages)


async def test_a_parent_that_sends_bad_pieces_is_left_and_the_message_arrives() -> None:
    """And it is charged, as those are that bring preambles which nobody signed."""
    async with overlay_of(6, pubsub_class=ResilientPubsub) as (nodes, readers):
        await publish(nodes[0], readers)
        bad = next(n for n in nodes[1:] if children(n, nodes[0]))
        liar = Liar(bad)
        honest = [s for n, s in zip(nodes, readers, strict=True) if n is not bad]
        await publish(nodes[0], honest, LARGE[:400_000])
        assert liar.sent > 0
        assert count(nodes, DropReason.PIECE_INVALID) > 0
        assert count(nodes, Reason.ERROR) == 0
        assert any(standing(node, bad) < BAN_BELOW for node in nodes)
        # Its children got bad pieces, and all but the one that it has the preamble from a bad one.
        assert sum(standing(node, bad) < 0 for node in nodes if node is not bad) >= 3
        assert count(nodes, Reason.PREAMBLE_FORGED) >= 3
        good = [node for node in nodes if node is not bad]
        assert all(standing(one, two) >= 0 for one in good for two in good)


async def test_peers_that_know_no_pieces_get_and_give_whole_messages() -> None:
    routers = [
        episub,
        episub,
        lambda: episub(params=WHOLE),
        lambda: stock(PROTOCOL_ID_V12),
    ]
    # The first two take pieces; an Episub node that doesn't, and a gossipsub peer, beside each.
    async with network(routers, [(1, 0), (2, 1), (3, 0)]) as nodes:
        readers = await subscribe(nodes)
        await eventually(lambda: bool(takers(nodes[0]) and takers(nodes[1])))
        for publisher, size in ((0, 200), (1, 201), (2, 202), (3, 203)):
            await publish(nodes[publisher], readers, bytes(size * KIB))
        # The second one's comes whole over the third first, and its last pieces a little later.
        await eventually(lambda: count(nodes[:2], Ordinary.ASSEMBLED) >= 2)
        assert count(nodes[:2], Ordinary.ASSEMBLED) == 2
        # What only those that take pieces can get.
        await publish(nodes[0], readers[:2])
        assert count(nodes[:1], Reason.OVERSIZE) >= 1
        await publish(nodes[0], readers, b"and all still work")
        assert count(nodes[:3], Reason.ERROR) == 0


def takers(node: Node) -> int:
    """Neighbours of `node` that take pieces."""
    machine = parts(node).topics.machine(TOPIC)
    assert machine is not None
    assert machine.pieces is not None
    return len(machine.pieces.takers)


async def test_the_largest_message_is_bounded() -> None:
    bounds = RouterParams(max_message_size=2_000_000)
    options = {"pubsub_class": ResilientPubsub, "router_params": bounds}
    async with overlay_of(2, **options) as (nodes, readers):
        with pytest.raises(MessageTooLarge, match="at most 2,000,000 fit pieces"):
            await nodes[0].pubsub.publish(TOPIC, bytes(2_000_000))
        await publish(nodes[0], readers, bytes(1_999_000))
        # Nobody gets pieces of topics that aren't joined.
        with pytest.raises(MessageTooLarge, match="fit an RPC"):
            await nodes[0].pubsub.publish("elsewhere", bytes(1_999_000))


async def test_a_message_just_below_16_mib_arrives_with_shipped_defaults() -> None:
    async with overlay_of(3, pubsub_class=ResilientPubsub) as (nodes, readers):
        await eventually(lambda: all(takers(node) == 2 for node in nodes))
        largest = 16 * KIB * KIB
        with pytest.raises(MessageTooLarge, match="at most 16,777,216 fit pieces"):
            await nodes[0].pubsub.publish(TOPIC, bytes(largest))
        await publish(nodes[0], readers, bytes(largest - KIB))
        assert count(nodes, Ordinary.ASSEMBLED) == 2


async def test_a_message_below_the_threshold_goes_whole() -> None:
    async with overlay_of(3, pubsub_class=ResilientPubsub) as (nodes, readers):
        await eventually(lambda: all(takers(node) == 2 for node in nodes))
        threshold = EpisubParams().broadcast.piece_threshold
        await publish(nodes[0], readers, bytes(threshold - KIB))
        assert count(nodes, Ordinary.PIECES_SENT) == 0
        await publish(nodes[0], readers, bytes(threshold))
        assert count(nodes, Ordinary.ASSEMBLED) == 2


async def test_what_is_not_signed_goes_whole() -> None:
    """Up to what fits an RPC; a larger one is refused before anybody has it."""
    unsigned = {
        "signature_policy": SignaturePolicy.STRICT_NO_SIGN,
        "msg_id_constructor": lambda message: sha256(message.data).digest(),
    }
    options = {"pubsub_class": ResilientPubsub, "pubsub_options": unsigned}
    async with overlay_of(3, **options) as (nodes, readers):
        await eventually(lambda: all(takers(node) == 2 for node in nodes))
        with pytest.raises(MessageTooLarge, match="fit an RPC"):
            await nodes[0].pubsub.publish(TOPIC, LARGE)
        for size in (200, 201, 900):
            await publish(nodes[0], readers, bytes(size * KIB))
        assert count(nodes, Ordinary.PIECES_SENT) == 0


async def test_a_small_message_overtakes_a_large_one() -> None:
    async with overlay_of(3, pubsub_class=ResilientPubsub) as (nodes, readers):
        await publish(nodes[0], readers, b"to have trees")
        await nodes[0].pubsub.publish(TOPIC, bytes(8_000_000))
        await nodes[0].pubsub.publish(TOPIC, b"small")
        for subscription in readers[1:]:
            first, second = await receive(subscription, 2)
            assert (first.data, len(second.data)) == (b"small", 8_000_000)


async def test_validators_see_the_message_once_and_whole() -> None:
    async with overlay_of(3, pubsub_class=ResilientPubsub) as (nodes, readers):
        seen: list[int] = []

        def refuse_large(forwarder: object, message: object) -> bool:
            size = len(getattr(message, "data", b""))
            seen.append(size)
            return size < KIB

        nodes[1].pubsub.set_topic_validator(TOPIC, refuse_large, is_async_validator=False)
        await publish(nodes[0], [readers[0], readers[2]])
        await publish(nodes[0], readers, b"small")
        assert sorted(seen) == [5, len(LARGE)]


async def test_a_large_message_is_seen_to_come_and_to_go() -> None:
    async with overlay_of(3, pubsub_class=ResilientPubsub) as (nodes, readers):
        await eventually(lambda: all(takers(node) == 2 for node in nodes))
        streams = [node.router.events(TOPIC) for node in nodes]
        await publish(nodes[0], readers)
        with trio.fail_after(PATIENCE):
            first = [e async for e in until(streams[0], lambda e: e.neighbors == 2)]
        assert [event.neighbors for event in first] == [0, 1, 2]
        id, size = first[0].id, first[0].size
        assert size > len(LARGE)
        for stream in streams[1:]:
            with trio.fail_after(PATIENCE):
                came = [e async for e in until(stream, lambda e: e.received == e.size)]
            assert {(e.id, e.source, e.size) for e in came} == {(id, nodes[0].id, size)}
            received = [event.received for event in came]
            assert received[0] == 0
            assert received == sorted(set(received))
            assert len(received) == 17


async def until(stream: EventStream, is_last: Callable[[Any], bool]) -> AsyncIterator[Any]:
    """What `stream` says of large messages, up to the last of it."""
    async for event in stream:
        if isinstance(event, LargeProgress | LargeSent):
            yield event
            if is_last(event):
                return
