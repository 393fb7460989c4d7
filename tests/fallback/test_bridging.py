"""What one side publishes the other gets, once, whichever peers are there besides."""

from __future__ import annotations

import pytest
import trio
from libp2p.abc import IPubsubRouter
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.custom_types import TProtocol
from libp2p.peer.id import ID
from libp2p.peer.peerstore import env_to_send_in_RPC
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V11, PROTOCOL_ID_V12, GossipSub
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub

from episub_router import FallbackParams, ResilientPubsub
from episub_router.net.counters import Ordinary, Reason
from tests.fallback.mixed import (
    FLOODSUB,
    MESHSUB,
    TOPIC,
    episub,
    gossipsub,
    linked,
    network,
    stock,
    subscribe,
)
from tests.hosts import PATIENCE, Node, connect, eventually, receive
from tests.router.overlays import count, crash, push, reading

pytestmark = pytest.mark.hosts

SIZES = (0, 1, 1024, 64 * 1024, 900 * 1024)


@pytest.mark.parametrize("pubsub_class", [Pubsub, ResilientPubsub])
@pytest.mark.parametrize("protocol", [*MESHSUB, FLOODSUB])
async def test_both_directions_in_every_version(
    protocol: TProtocol, pubsub_class: type[Pubsub]
) -> None:
    routers = [lambda: stock(protocol), episub, episub, lambda: stock(protocol)]
    async with network(routers, [(0, 1), (1, 2), (3, 2)], pubsub_class=pubsub_class) as nodes:
        assert nodes[1].router.peer_protocol[nodes[0].id] == protocol
        subscriptions = await subscribe(nodes)
        async with reading(subscriptions) as readers:
            messages = [b"%d from %d" % (n, number) for number in range(4) for n in range(5)]
            for number, message in enumerate(messages):
                await nodes[number // 5].pubsub.publish(TOPIC, message)
            await readers.all_have(messages)
        assert count(nodes[1:3], Reason.ERROR) == 0


async def test_sizes() -> None:
    messages = [bytes([number]) * size for size in SIZES for number in range(2)]
    async with network([gossipsub, episub, episub], [(0, 1), (1, 2)]) as nodes:
        subscriptions = await subscribe(nodes)
        async with reading(subscriptions) as readers:
            for number, message in enumerate(messages):
                await nodes[2 * (number % 2)].pubsub.publish(TOPIC, message)
                await readers.each_has(number + 1)
            await readers.all_have(messages)


async def test_a_burst_arrives_completely() -> None:
    """Pubsub's queue holds 32 RPCs, and GossipSub drops what is beyond."""
    messages = [b"%d" % number for number in range(250)]
    async with network([gossipsub, episub, episub], [(0, 1), (1, 2)]) as nodes:
        subscriptions = await subscribe(nodes)
        async with reading(subscriptions) as readers:
            for message in messages:
                await nodes[1].pubsub.publish(TOPIC, message)
            await readers.all_have(messages)


async def test_bridges_side_by_side_make_no_loops_and_no_duplicates() -> None:
    """A ring of alternating kinds, with chords: everything can come from either side first."""
    routers = [gossipsub, episub] * 4
    links = [(n, (n + 1) % 8) for n in range(8)] + [(n, (n + 2) % 8) for n in range(8)]
    async with network(routers, links) as nodes:
        subscriptions = [await node.pubsub.subscribe(TOPIC) for node in nodes]
        for node in nodes:
            await eventually(lambda node=node: len(node.router.mesh.get(TOPIC, ())) >= 2)
        async with reading(subscriptions) as readers:
            messages = []
            for turn in range(5):
                for number, node in enumerate(nodes):
                    messages.append(b"%d from %d" % (turn, number))
                    await node.pubsub.publish(TOPIC, messages[-1])
            await readers.all_have(messages)


async def test_publishing_without_subscribing() -> None:
    async with network([gossipsub, episub, stock_flood], [(0, 1), (2, 1)]) as nodes:
        listeners = [nodes[0], nodes[2]]
        subscriptions = [await node.pubsub.subscribe(TOPIC) for node in listeners]
        for node in listeners:
            await nodes[1].pubsub.wait_for_subscription(node.id, TOPIC)
        await nodes[1].pubsub.publish(TOPIC, b"from outside")
        for subscription in subscriptions:
            assert [m.data for m in await receive(subscription)] == [b"from outside"]
        assert count(nodes[1], Reason.FANOUT_EMPTY) == 0


def stock_flood() -> object:
    return stock(FLOODSUB)


async def test_peers_that_a_prune_names_are_connected_to_if_they_signed_their_records() -> None:
    async with network([episub, gossipsub, gossipsub], [(1, 0)]) as nodes:
        node, pruner, named = nodes
        await subscribe(nodes[:2])
        record, _ = env_to_send_in_RPC(named.host)
        prune = rpc_pb2.ControlPrune(topicID=TOPIC)
        prune.peers.add(peerID=b"unsigned", signedPeerRecord=record)
        prune.peers.add(peerID=named.id.to_bytes(), signedPeerRecord=record)
        push(pruner, node, rpc_pb2.RPC(control=rpc_pb2.ControlMessage(prune=[prune])))
        await eventually(lambda: named.id in node.pubsub.peers)
        assert count(node, Ordinary.DIALS) == 1


@pytest.mark.parametrize("protocol", [PROTOCOL_ID_V12, FLOODSUB])
async def test_late_joiners_on_both_sides(protocol: TProtocol) -> None:
    kinds = [lambda: stock(protocol), episub] * 2
    async with network(kinds, [(0, 1)]) as nodes:
        early = await subscribe(nodes[:2])
        async with reading(early) as readers:
            await nodes[0].pubsub.publish(TOPIC, b"before")
            await readers.each_has(1)
            await connect(nodes[2], nodes[1])
            await connect(nodes[3], nodes[1])
            late = [await node.pubsub.subscribe(TOPIC) for node in nodes[2:]]
            await linked(nodes[1], nodes[2])
            await linked(nodes[2], nodes[1])
            await linked(nodes[1], nodes[3])
            async with reading(late) as newcomers:
                for number in range(4):
                    await nodes[number].pubsub.publish(TOPIC, b"from %d" % number)
                await readers.all_have([b"before", *(b"from %d" % n for n in range(4))])
                new = {b"from %d" % n for n in range(4)}
                await eventually(lambda: all(new <= set(got) for got in newcomers.received))
                for got in newcomers.received:
                    assert len(set(got)) == len(got)


@pytest.mark.parametrize("leaver", [0, 1])
async def test_unsubscribe_and_subscribe_again(leaver: int) -> None:
    """GossipSub's back-off lasts ten seconds; until then messages come by IHAVE and IWANT."""
    async with network([gossipsub, episub, episub], [(0, 1), (1, 2)]) as nodes:
        first, second, third = await subscribe(nodes)
        await nodes[2].pubsub.publish(TOPIC, b"one")
        for subscription in (first, second, third):
            assert [m.data for m in await receive(subscription)] == [b"one"]
        node = nodes[leaver]
        await node.pubsub.unsubscribe(TOPIC)
        for other in nodes:
            await eventually(
                lambda other=other: node.id not in other.pubsub.peer_topics.get(TOPIC, ())
            )
        if leaver == 0:  # the path to it is not cut for others
            await nodes[1].pubsub.publish(TOPIC, b"two")
            for subscription in (second, third):
                assert [m.data for m in await receive(subscription)] == [b"two"]
        again = await node.pubsub.subscribe(TOPIC)
        for other in nodes:
            if node.id in other.pubsub.peers:
                await other.pubsub.wait_for_subscription(node.id, TOPIC)
        if leaver == 1:  # what GossipSub publishes to an empty mesh and then grafts is lost
            await eventually(lambda: node.id in nodes[0].router.mesh[TOPIC])
        await nodes[2 if leaver == 0 else 0].pubsub.publish(TOPIC, b"three")
        assert (await receive_until(again, b"three")).count(b"three") == 1


async def test_a_bridge_that_comes_back_is_not_refused() -> None:
    """A stock peer answers a GRAFT that follows our PRUNE too soon with a minute's back-off. Here
    too soon is 2 s, its back-off; it has no heartbeat in which it could graft first."""

    def slow() -> GossipSub:
        router = gossipsub(prune_back_off=2)
        router.heartbeat_initial_delay = 600
        return router

    def bridge() -> IPubsubRouter:
        return episub(fallback=FallbackParams(prune_backoff=2))

    async with network([slow, bridge, episub], [(0, 1), (1, 2)]) as (peer, node, far):
        refused = 0
        handle_rpc = node.router.handle_rpc

        async def told(rpc: rpc_pb2.RPC, sender: ID) -> None:
            nonlocal refused
            refused += len(rpc.control.prune)
            await handle_rpc(rpc, sender)

        vars(node.router)["handle_rpc"] = told
        first, _, _ = await subscribe([peer, node, far])
        await node.pubsub.unsubscribe(TOPIC)
        await eventually(lambda: node.id not in peer.router.mesh[TOPIC])
        await eventually(lambda: node.id not in peer.pubsub.peer_topics.get(TOPIC, ()))
        again = await node.pubsub.subscribe(TOPIC)
        await eventually(lambda: node.id in peer.router.mesh[TOPIC])
        assert not refused
        await peer.pubsub.publish(TOPIC, b"to you")
        assert [m.data for m in await receive(again)] == [b"to you"]
        await far.pubsub.publish(TOPIC, b"to me")
        assert [m.data for m in await receive(first, 2)] == [b"to you", b"to me"]


async def receive_until(subscription: object, last: bytes) -> list[bytes]:
    got: list[bytes] = []
    while last not in got:
        got += [m.data for m in await receive(subscription)]  # type: ignore[arg-type]
    return got


async def test_two_topics_with_different_peers() -> None:
    """gossipsub 0 and Episub 1, 2 are in `a`; gossipsub 3 and Episub 1, 2 are in `b`."""
    async with network([gossipsub, episub, episub, gossipsub], [(0, 1), (1, 2), (2, 3)]) as nodes:
        a = await subscribe(nodes[:3], "a")
        b = await subscribe(nodes[1:], "b")
        async with reading(a) as in_a, reading(b) as in_b:
            for number, node in enumerate(nodes[:3]):
                await node.pubsub.publish("a", b"a%d" % number)
            for number, node in enumerate(nodes[1:]):
                await node.pubsub.publish("b", b"b%d" % number)
            await in_a.all_have([b"a0", b"a1", b"a2"])
            await in_b.all_have([b"b0", b"b1", b"b2"])


async def test_a_peer_that_is_killed_and_a_bridge_that_is_killed() -> None:
    """Two bridges between the sides: one dies, then a gossipsub host, and all others go on."""
    links = [(0, 1), (0, 2), (3, 1), (3, 2), (1, 2), (4, 1), (4, 2), (0, 3)]
    async with network([gossipsub, episub, episub, gossipsub, episub], links) as nodes:
        subscriptions = [await node.pubsub.subscribe(TOPIC) for node in nodes]
        await eventually(lambda: all(node.router.mesh.get(TOPIC) for node in nodes))
        await crash(nodes[1])
        rest = [nodes[0], nodes[2], nodes[3], nodes[4]]
        for node in rest:
            await eventually(lambda node=node: nodes[1].id not in node.pubsub.peers)
        survivors = [subscriptions[n] for n in (0, 2, 3, 4)]
        async with reading(survivors) as readers:
            for number, node in enumerate(rest):
                await node.pubsub.publish(TOPIC, b"one %d" % number)
            await readers.all_have([b"one %d" % n for n in range(4)])
        await crash(nodes[3])
        for node in rest:
            if node is not nodes[3]:
                await eventually(lambda node=node: nodes[3].id not in node.pubsub.peers)
        left = [subscriptions[n] for n in (0, 2, 4)]
        async with reading(left) as readers:
            await nodes[0].pubsub.publish(TOPIC, b"two")
            await nodes[4].pubsub.publish(TOPIC, b"three")
            await readers.all_have([b"two", b"three"])


class TestWhatIsInvalidStaysOnItsSide:
    """gossipsub 0 - Episub 1 - gossipsub 2, and Episub 3 at Episub 1."""

    KINDS = (gossipsub, episub, gossipsub, episub)
    LINKS = ((0, 1), (2, 1), (3, 1))

    @pytest.mark.parametrize("is_async", [False, True])
    async def test_what_a_validator_rejects(self, is_async: bool) -> None:
        def is_good(_: object, message: rpc_pb2.Message) -> bool:
            return not message.data.startswith(b"bad")

        async def is_good_in_time(_: object, message: rpc_pb2.Message) -> bool:
            await trio.lowlevel.checkpoint()
            return not message.data.startswith(b"bad")

        async with network(self.KINDS, self.LINKS) as nodes:
            nodes[1].pubsub.set_topic_validator(
                TOPIC, is_good_in_time if is_async else is_good, is_async
            )
            subscriptions = await subscribe(nodes)
            for sender in (0, 3):
                await nodes[sender].pubsub.publish(TOPIC, b"bad from %d" % sender)
                await nodes[sender].pubsub.publish(TOPIC, b"good from %d" % sender)
            for number in (1, 2):
                got = [m.data for m in await receive(subscriptions[number], 2)]
                assert sorted(got) == [b"good from 0", b"good from 3"]
            assert_nothing_more(nodes[1:3])

    @pytest.mark.parametrize("defect", ["unsigned", "wrongly signed", "altered"])
    async def test_what_is_not_signed_as_it_should(self, defect: str) -> None:
        async with network(self.KINDS, self.LINKS) as nodes:
            subscriptions = await subscribe(nodes)
            author = nodes[0]
            await author.pubsub.publish(TOPIC, b"good")
            message = rpc_pb2.Message()
            message.CopyFrom((await receive(subscriptions[0]))[0])
            message.seqno = (2**40).to_bytes(8, "big")
            if defect == "unsigned":
                message.ClearField("signature")
                message.ClearField("key")
            elif defect == "wrongly signed":
                other = create_new_key_pair(bytes(31) + b"\x77").private_key
                message.signature = other.sign(b"libp2p-pubsub:" + message.SerializeToString())
            queue = author.pubsub.peer_queues[nodes[1].id]
            assert queue.push(rpc_pb2.RPC(publish=[message]))
            await author.pubsub.publish(TOPIC, b"last")
            for number in (1, 2, 3):
                got = [m.data for m in await receive(subscriptions[number], 2)]
                assert got == [b"good", b"last"]
            assert_nothing_more(nodes[1:])


def assert_nothing_more(nodes: list[Node]) -> None:
    for node in nodes:
        channel = node.pubsub.subscribed_topics_receive[TOPIC].receive_channel
        assert channel.statistics().current_buffer_used == 0


async def test_a_slow_validator_and_copies_from_both_sides() -> None:
    """The stock Pubsub accepts each copy that comes while the first is validated, and delivers
    it; the router passes on one."""
    release = trio.Event()
    waiting = 0

    async def slow(_: object, __: rpc_pb2.Message) -> bool:
        nonlocal waiting
        waiting += 1
        await release.wait()
        return True

    links = [(0, 1), (0, 2), (1, 2), (3, 2), (4, 2)]
    kinds = [gossipsub, gossipsub, episub, gossipsub, episub]
    async with network(kinds, links, pubsub_class=Pubsub) as nodes:
        nodes[2].pubsub.set_topic_validator(TOPIC, slow, True)
        subscriptions = await subscribe(nodes)
        await nodes[0].pubsub.publish(TOPIC, b"once")
        await eventually(lambda: waiting == 2)
        publish = nodes[3].pubsub.push_msg
        copies = []

        async def counting(forwarder: object, message: rpc_pb2.Message) -> None:
            copies.append(message.data)
            await publish(forwarder, message)  # type: ignore[arg-type]

        nodes[3].pubsub.push_msg = counting  # type: ignore[method-assign]
        release.set()
        await receive(subscriptions[4])
        await receive(subscriptions[3])
        await nodes[2].pubsub.publish(TOPIC, b"last")
        await receive(subscriptions[3])
        assert copies == [b"once", b"last"]


async def test_the_gossip_path_to_a_peer_that_keeps_no_mesh() -> None:
    """It prunes everybody: messages get there, and away, by IHAVE and IWANT alone."""

    def loner() -> object:
        return gossipsub(degree=0, degree_low=0, degree_high=0)

    async with network([loner, episub, episub], [(0, 1), (1, 2)]) as nodes:  # type: ignore[list-item]
        subscriptions = [await node.pubsub.subscribe(TOPIC) for node in nodes]
        await linked(nodes[1], nodes[2])
        for node in nodes[:2]:
            other = nodes[1] if node is nodes[0] else nodes[0]
            await node.pubsub.wait_for_subscription(other.id, TOPIC)
        async with reading(subscriptions) as readers:
            await eventually(lambda: not nodes[0].router.mesh[TOPIC])
            await eventually(lambda: nodes[0].id not in nodes[1].router.mesh[TOPIC])
            messages = [b"to it", b"from it"]
            await nodes[2].pubsub.publish(TOPIC, messages[0])
            await nodes[0].pubsub.publish(TOPIC, messages[1])
            await readers.all_have(messages)


async def test_with_protocol_11_and_its_default_scoring() -> None:
    """GossipSub as most have it: its scorer grafts up to the bound."""

    def default() -> GossipSub:
        return GossipSub([PROTOCOL_ID_V11], 6, 4, 12, heartbeat_interval=1)

    async with network([default, episub, default, episub], [(0, 1), (1, 2), (2, 3)]) as nodes:
        subscriptions = await subscribe(nodes)
        async with reading(subscriptions) as readers:
            messages = []
            for number in range(8):
                messages.append(b"%d" % number)
                await nodes[number % 4].pubsub.publish(TOPIC, messages[-1])
                await readers.each_has(number + 1)
            await readers.all_have(messages)


async def test_peers_that_a_leaving_hub_names_are_connected_to() -> None:
    """Peer exchange: the hub unsubscribes, and its PRUNE names the others."""

    def hub() -> GossipSub:
        return gossipsub(do_px=True)

    async with network([hub, episub, gossipsub], [(1, 0), (2, 0)]) as nodes:
        subscriptions = await subscribe(nodes)
        assert nodes[2].id not in nodes[1].pubsub.peers
        await nodes[0].pubsub.unsubscribe(TOPIC)
        await nodes[1].pubsub.wait_for_peer(nodes[2].id, timeout=PATIENCE)
        await linked(nodes[1], nodes[2])
        await nodes[1].pubsub.publish(TOPIC, b"hello")
        assert [m.data for m in await receive(subscriptions[2])] == [b"hello"]
