"""Which side a peer is on, and how that is found out."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager

import pytest
from libp2p.abc import IPubsubRouter
from libp2p.custom_types import TProtocol
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V12, PROTOCOL_ID_V13
from libp2p.pubsub.pb import rpc_pb2

from episub_router import PROTOCOL_ID, EpisubRouter, FallbackParams, ResilientPubsub
from episub_router.fallback.extension import EpisubExtension, announces_episub
from episub_router.net.counters import Ordinary, Reason
from tests.fallback.mixed import (
    FLOODSUB,
    MESHSUB,
    TOPIC,
    episub,
    gossipsub,
    linked,
    network,
    subscribe,
)
from tests.hosts import Node, connect, eventually, receive, running_nodes
from tests.router.overlays import count, joined, parts, push, push_frame, reading, router

pytestmark = pytest.mark.hosts


class Prefers(EpisubRouter):
    """Offers what the fallback offers, in another order."""

    def __init__(self, *first: TProtocol) -> None:
        super().__init__(seed=1)
        self.first = first

    def get_protocols(self) -> list[TProtocol]:
        return list(dict.fromkeys([*self.first, *super().get_protocols()]))


def gossipsub_side(node: Node) -> list[object]:
    bridge = router(node)._bridge
    assert bridge is not None
    return [peer for peer in node.router.peer_protocol if bridge.serves(peer)]


def test_what_is_offered_in_which_order() -> None:
    assert EpisubRouter().get_protocols() == [PROTOCOL_ID, *MESHSUB, FLOODSUB]
    assert EpisubRouter(fallback=None).get_protocols() == [PROTOCOL_ID]
    assert EpisubRouter(offer_episub=False).get_protocols() == [*MESHSUB, FLOODSUB]
    only = FallbackParams(protocols=(PROTOCOL_ID_V12,))
    assert EpisubRouter(fallback=only).get_protocols() == [PROTOCOL_ID, PROTOCOL_ID_V12]
    with pytest.raises(ValueError, match="Episub has to be offered"):
        EpisubRouter(fallback=None, offer_episub=False)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"protocols": ()}, "at least one"),
        ({"protocols": (TProtocol("/meshsub/9.0.0"),)}, "/meshsub/9.0.0"),
        ({"degree_low": 7}, "must not decrease"),
        ({"heartbeat_interval": 0}, "heartbeat_interval"),
    ],
)
def test_params_that_make_no_sense(wrong: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        FallbackParams(**wrong)  # type: ignore[arg-type]


async def test_a_peer_that_prefers_meshsub_is_an_episub_peer_to_both() -> None:
    """Each direction negotiates by itself, and one of them is enough."""
    kinds = [episub, lambda: Prefers(PROTOCOL_ID_V12)]
    async with network(kinds, [(0, 1)]) as nodes:
        assert nodes[0].router.peer_protocol == {nodes[1].id: PROTOCOL_ID}
        assert nodes[1].router.peer_protocol == {nodes[0].id: PROTOCOL_ID_V12}
        subscriptions = [await node.pubsub.subscribe(TOPIC) for node in nodes]
        await joined(nodes)
        assert gossipsub_side(nodes[0]) == gossipsub_side(nodes[1]) == []
        async with reading(subscriptions) as readers:
            for number, node in enumerate(nodes):
                await node.pubsub.publish(TOPIC, b"%d" % number)
            await readers.all_have([b"0", b"1"])


async def test_episub_nodes_that_meet_on_meshsub_13_find_each_other() -> None:
    """Neither stream is Episub's; the extension in the first RPC says what they are."""
    kinds = [lambda: Prefers(PROTOCOL_ID_V13)] * 2
    async with network(kinds, [(0, 1)]) as nodes:
        for node, other in (nodes, nodes[::-1]):
            assert node.router.peer_protocol == {other.id: PROTOCOL_ID_V13}
        for node in nodes:
            await eventually(lambda node=node: not gossipsub_side(node))
        for node in nodes:
            await node.pubsub.subscribe(TOPIC)
        await joined(nodes)
        assert {peer for node in nodes for peer in parts(node).topics.joined[TOPIC].neighbors} == {
            node.id for node in nodes
        }


async def test_on_older_versions_they_are_gossipsub_to_each_other() -> None:
    kinds = [lambda: Prefers(PROTOCOL_ID_V12)] * 2
    async with network(kinds, [(0, 1)]) as nodes:
        subscriptions = await subscribe(nodes)
        for node, other in (nodes, nodes[::-1]):
            assert gossipsub_side(node) == [other.id]
        await nodes[0].pubsub.publish(TOPIC, b"hello")
        for subscription in subscriptions:
            assert [m.data for m in await receive(subscription)] == [b"hello"]
        assert count(nodes, Ordinary.FRAMES_SENT) == 0


async def test_a_frame_says_it_too_and_a_lost_connection_takes_it_back() -> None:
    kinds = [lambda: Prefers(PROTOCOL_ID_V12)] * 2
    async with network(kinds, [(0, 1)]) as nodes:
        await subscribe(nodes)
        assert gossipsub_side(nodes[1]) == [nodes[0].id]
        push_frame(nodes[0], nodes[1], seq=1)
        await eventually(lambda: gossipsub_side(nodes[1]) == [])
        assert nodes[0].id not in router(nodes[1])._bridge.mesh[TOPIC]  # type: ignore[union-attr]
        await nodes[0].host.disconnect(nodes[1].id)
        await eventually(lambda: not nodes[1].router.peer_protocol)
        await connect(nodes[0], nodes[1])
        assert gossipsub_side(nodes[1]) == [nodes[0].id]


async def test_stock_gossipsub_13_takes_the_announcement() -> None:
    async with network([lambda: gossipsub(PROTOCOL_ID_V13), episub], [(0, 1)]) as nodes:
        subscriptions = await subscribe(nodes)
        assert nodes[0].id in nodes[1].router.extensions_state._sent_extensions  # type: ignore[attr-defined]
        await nodes[0].pubsub.publish(TOPIC, b"hello")
        for subscription in subscriptions:
            assert [m.data for m in await receive(subscription)] == [b"hello"]
        assert gossipsub_side(nodes[1]) == [nodes[0].id]


def test_the_announcement() -> None:
    hello = EpisubExtension(announced=True).build_hello_extensions(None, rpc_pb2.RPC())  # type: ignore[arg-type]
    assert hello.SerializeToString() == bytes.fromhex("1a07 3205 a897d13a01")
    assert announces_episub(rpc_pb2.RPC.FromString(hello.SerializeToString()))
    for other in (b"", b"\x1a\x00", b"\x1a\x02\x32\x00", bytes.fromhex("1a07 3205 a897d13a00")):
        assert not announces_episub(rpc_pb2.RPC.FromString(other))
    silent = EpisubExtension(announced=False).build_hello_extensions(None, rpc_pb2.RPC())  # type: ignore[arg-type]
    assert silent.SerializeToString() == b""


async def test_without_episub_it_is_a_gossipsub_node() -> None:
    kinds = [episub, lambda: episub(offer_episub=False), gossipsub]
    async with network(kinds, [(0, 1), (1, 2)]) as nodes:
        subscriptions = await subscribe(nodes)
        assert set(gossipsub_side(nodes[1])) == {nodes[0].id, nodes[2].id}
        push_frame(nodes[0], nodes[1], seq=1)  # which no Episub node would send to it
        async with reading(subscriptions) as readers:
            for number, node in enumerate(nodes):
                await node.pubsub.publish(TOPIC, b"%d" % number)
            await readers.all_have([b"0", b"1", b"2"])
        assert set(gossipsub_side(nodes[1])) == {nodes[0].id, nodes[2].id}
        assert count(nodes[:2], Ordinary.FRAMES_RECEIVED) == 0


async def test_control_of_a_blacklisted_peer_is_ignored() -> None:
    for options in ({}, {"offer_episub": False}):
        async with network([gossipsub, lambda: episub(**options)], [(0, 1)]) as nodes:  # noqa: B023
            nodes[1].pubsub.blacklisted_peers.add(nodes[0].id)
            await nodes[1].pubsub.subscribe(TOPIC)
            rpc = rpc_pb2.RPC()
            rpc.control.graft.add(topicID=TOPIC)
            push(nodes[0], nodes[1], rpc)
            await eventually(lambda: count(nodes[1], Reason.BLACKLISTED) == 1)
            assert not router(nodes[1])._bridge.mesh[TOPIC]  # type: ignore[union-attr]


async def test_a_peer_that_comes_back_without_episub_is_served_by_gossipsub() -> None:
    """Its stream broke, the new one never came, and Pubsub says nothing when such a peer goes."""

    def start(router: Callable[[], IPubsubRouter]) -> AbstractAsyncContextManager[list[Node]]:
        return running_nodes(1, router=router, pubsub_class=ResilientPubsub, seed=7)

    async with network([episub], []) as [node]:
        subscription = await node.pubsub.subscribe(TOPIC)
        async with start(lambda: Prefers(PROTOCOL_ID_V12)) as [before]:
            await connect(before, node)
            await before.pubsub.subscribe(TOPIC)
            await joined([node, before])
            before.host.get_mux().handlers.clear()  # it takes no new stream
            await node.pubsub.peers[before.id].reset()
            await node.pubsub.publish(TOPIC, b"into the broken stream")
            await eventually(lambda: before.id not in node.pubsub.peers)
            peer = before.id
            await before.host.disconnect(node.id)
        await eventually(lambda: not node.host.get_network().get_connections(peer))
        async with start(gossipsub) as [after]:
            assert after.id == peer
            await connect(after, node)
            await after.pubsub.subscribe(TOPIC)
            await linked(after, node)
            assert gossipsub_side(node) == [peer]
            await after.pubsub.publish(TOPIC, b"hello")
            while (await receive(subscription))[0].data != b"hello":
                pass
            assert count(node, Reason.ERROR) == 0
