"""Connections: how the router gets them, keeps them, and which it closes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from math import inf

import pytest
import trio
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.custom_types import TProtocol
from libp2p.network.swarm import Swarm
from libp2p.peer.envelope import seal_record
from libp2p.peer.id import ID
from libp2p.peer.peer_record import PeerRecord
from libp2p.peer.peerinfo import PeerInfo
from libp2p.peer.peerstore import PERMANENT_ADDR_TTL, PeerStore
from libp2p.pubsub.pb import rpc_pb2
from libp2p.pubsub.pubsub import Pubsub
from multiaddr import Multiaddr

from episub_router import EpisubRouter, FallbackParams, ResilientPubsub, RouterParams
from episub_router.net import peers
from episub_router.net.connections.dial_budget import BUDGET, PER_INFORMANT
from episub_router.net.counters import Ordinary, Reason
from episub_router.net.peers import PeerState
from tests.hosts import PATIENCE, Node, connect, connect_all, eventually, receive, running_nodes
from tests.router.overlays import (
    TOPIC,
    count,
    joined,
    overlay_of,
    parts,
    peers_of,
    record,
    router,
)

pytestmark = pytest.mark.hosts

QUICK = RouterParams(release_grace=0.05, idle_timeout=0.5)


def address(node: Node) -> str:
    """A multiaddr that ends in /p2p/."""
    return str(node.host.get_addrs()[0])


def is_connected(node: Node, other: Node) -> bool:
    return bool(node.host.get_network().get_connections(other.id))


@asynccontextmanager
async def bootstrapped(
    contacts: int, router_params: RouterParams | None = None
) -> AsyncIterator[tuple[Node, list[Node]]]:
    """A node, and `contacts` others that are in the topic and in its bootstrap list."""
    async with AsyncExitStack() as stack:
        others = await stack.enter_async_context(running_nodes(contacts, router=EpisubRouter))
        for other in others:
            await other.pubsub.subscribe(TOPIC)
        [node] = await stack.enter_async_context(
            running_nodes(
                1,
                router=lambda: EpisubRouter(
                    router_params=router_params,
                    bootstrap=[address(other) for other in others],
                ),
                seed=1,
            )
        )
        yield node, others


async def test_addresses_of_the_application_outlive_dials() -> None:
    """py-libp2p dials what its peerstore has, and keeps it for two minutes then."""
    gone = ID.from_pubkey(create_new_key_pair(b"\xee" * 32).public_key)
    ours, theirs = (f"/ip4/127.0.0.1/tcp/{port}" for port in (1, 2))
    routers = running_nodes(1, router=lambda: EpisubRouter(bootstrap=[f"{ours}/p2p/{gone}"]))
    async with routers as [node]:
        store = node.host.get_peerstore()
        assert isinstance(store, PeerStore)
        store.add_addrs(gone, [Multiaddr(theirs)], PERMANENT_ADDR_TTL)
        await node.pubsub.subscribe(TOPIC)
        await eventually(lambda: count(node, Reason.DIAL_FAILED) > 0)
        assert store.addrs(gone) == [Multiaddr(theirs)]
        assert store.peer_data_map[gone].get_ttl() == PERMANENT_ADDR_TTL


async def test_a_node_joins_through_its_bootstrap_list() -> None:
    async with bootstrapped(2) as (node, others):
        subscription = await node.pubsub.subscribe(TOPIC)
        await joined([node, *others])
        await others[0].pubsub.publish(TOPIC, b"hello")
        assert [m.data for m in await receive(subscription)] == [b"hello"]


async def test_a_bootstrap_node_that_comes_up_later_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(peers, "DIAL_BACKOFF", 0.1)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    await listeners[0].aclose()
    async with AsyncExitStack() as stack:
        [late] = await stack.enter_async_context(running_nodes(1, router=EpisubRouter))
        bootstrap = f"/ip4/127.0.0.1/tcp/{port}/p2p/{late.id}"
        [node] = await stack.enter_async_context(
            running_nodes(
                1,
                router=lambda: EpisubRouter(bootstrap=[bootstrap]),
                seed=1,
            )
        )
        await node.pubsub.subscribe(TOPIC)
        await eventually(lambda: count(node, Reason.DIAL_FAILED) > 0)
        await late.pubsub.subscribe(TOPIC)
        assert await late.host.get_network().listen(Multiaddr(f"/ip4/127.0.0.1/tcp/{port}"))
        with trio.fail_after(PATIENCE):
            await router(node).wait_for_mesh(late.id, TOPIC, timeout=PATIENCE)


def test_a_bootstrap_address_without_a_peer_id_is_refused() -> None:
    with pytest.raises(ValueError, match=r"/ip4/127\.0\.0\.1/tcp/4001"):
        EpisubRouter(bootstrap=["/ip4/127.0.0.1/tcp/4001"])


async def test_peers_are_dialled_from_the_records_that_frames_bring() -> None:
    async with running_nodes(3, router=EpisubRouter) as (left, middle, right):
        await connect_all([(left, middle), (right, middle)])
        for node in (left, middle, right):
            await node.pubsub.subscribe(TOPIC)
        await joined([left, middle, right])
        assert right.id in router(left).mesh[TOPIC]
        assert parts(left).book.addresses(right.id.to_bytes())


async def test_only_unused_connections_that_the_router_opened_are_closed() -> None:
    async with (
        bootstrapped(3, QUICK) as (node, others),
        running_nodes(1, router=EpisubRouter, seed=2) as [dialled_by_application],
    ):
        unused, protected, with_stream = others
        network = node.host.get_network()
        protocol = TProtocol("/application/1.0.0")

        async def serve(stream: object) -> None:
            await trio.sleep_forever()

        await node.pubsub.subscribe(TOPIC)
        await connect(node, dialled_by_application)
        for other in others:
            await router(node).wait_for_mesh(other.id, TOPIC, timeout=PATIENCE)
        network.protect(protected.id, "application")
        with_stream.host.set_stream_handler(protocol, serve)
        await node.host.new_stream(with_stream.id, [protocol])
        for other in others:
            await other.pubsub.unsubscribe(TOPIC)
        await node.pubsub.unsubscribe(TOPIC)
        await eventually(lambda: not is_connected(node, unused))
        await eventually(lambda: count(node, Ordinary.CONNECTIONS_CLOSED) > 0)
        for other in (dialled_by_application, protected, with_stream):
            assert is_connected(node, other)


async def test_neighbors_stay_connected_however_idle() -> None:
    async with bootstrapped(1, QUICK) as (node, [other]):
        await node.pubsub.subscribe(TOPIC)
        await joined([node, other])
        peer = record(node, other)
        await eventually(lambda: peer.close_at is not None)
        first = peer.close_at or 0.0
        await eventually(lambda: (peer.close_at or 0.0) > first + 2 * QUICK.idle_timeout)
        assert is_connected(node, other)
        assert count(node, Ordinary.CONNECTIONS_CLOSED) == 0


@pytest.mark.parametrize("keep", [False, True])
async def test_the_auto_connector_is_stopped_unless_it_is_to_be_kept(keep: bool) -> None:
    params = RouterParams(keep_auto_connector=keep)
    async with running_nodes(
        2, router=lambda: EpisubRouter(router_params=params), auto_connect=True
    ) as nodes:
        await connect(*nodes)
        for node in nodes:
            network = node.host.get_network()
            assert isinstance(network, Swarm)
            await eventually(lambda network=network: network.auto_connector._started is keep)  # type: ignore[misc]


async def test_a_mute_listener_does_not_hold_a_dial_up() -> None:
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    peer = ID(b"\x00\x24\x08\x01\x12\x20" + bytes(32))
    params = RouterParams(dial_timeout=0.3)
    async with running_nodes(
        1,
        router=lambda: EpisubRouter(
            router_params=params, bootstrap=[f"/ip4/127.0.0.1/tcp/{port}/p2p/{peer}"]
        ),
    ) as [node]:
        await node.pubsub.subscribe(TOPIC)
        await eventually(lambda: count(node, Reason.DIAL_FAILED) == 1)
    await listener.aclose()


@asynccontextmanager
async def third_party(ports: int) -> AsyncIterator[tuple[list[int], list[int]]]:
    """A host that refuses connections on so many ports: the ports, and where some were made."""
    connected: list[int] = []

    async def refuse(stream: trio.SocketStream) -> None:
        connected.append(stream.socket.getsockname()[1])
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = [(await trio.open_tcp_listeners(0, host="127.0.0.1"))[0] for _ in range(ports)]
        nursery.start_soon(trio.serve_listeners, refuse, listeners)
        yield [listener.socket.getsockname()[1] for listener in listeners], connected
        nursery.cancel_scope.cancel()


def made_up(number: int, ports: list[int]) -> tuple[bytes, bytes]:
    """The id of a made-up peer, and its record, which has addresses at these ports."""
    keys = create_new_key_pair(number.to_bytes(32, "big"))
    addresses = [Multiaddr(f"/ip4/127.0.0.1/tcp/{port}") for port in ports]
    peer = PeerRecord(ID.from_pubkey(keys.public_key), addresses, 1)
    return peer.peer_id.to_bytes(), seal_record(peer, keys.private_key).marshal_envelope()


def told_of(node: Node, number: int, ports: list[int], informant: bytes | None) -> bytes:
    """The id of a made-up peer whose record, which `informant` or the peer itself has sent to
    `node`, has addresses at these ports."""
    key, signed = made_up(number, ports)
    assert parts(node).book.learn(key, signed, informant)
    return key


async def test_of_a_peer_known_on_anothers_word_one_address_of_a_host_is_tried() -> None:
    """Once: three addresses of a third party in each made-up record, and four attempts of
    py-libp2p, made 1,164 connections of 110 dials."""
    async with (
        third_party(3) as (ports, connected),
        running_nodes(1, router=EpisubRouter) as [node],
    ):
        peer = peers_of(node)[told_of(node, 1, ports, b"hostile")]
        for dials in (1, 2):
            peer.dial_not_before = 0.0
            parts(node).peers.request(peer, for_others=True)
            await eventually(lambda dials=dials: count(node, Reason.DIAL_FAILED) == dials)  # type: ignore[misc]
            assert connected == [ports[0]] * dials


async def test_one_hostile_peer_makes_few_connections_to_a_third_party() -> None:
    """By its own record and by those of peers that it made up, at another port each."""
    async with (
        third_party(43) as (ports, connected),
        running_nodes(1, router=EpisubRouter) as [node],
    ):
        started = trio.current_time()
        hostile = told_of(node, 1, ports[:3], None)
        named = [told_of(node, n, [ports[n + 1]], hostile) for n in range(2, 42)]

        def ended() -> int:
            return count(node, Reason.DIAL_FAILED) + count(node, Reason.DIAL_UNAFFORDABLE)

        for times in (1, 2):
            for key in (hostile, *named):
                peer = peers_of(node)[key]
                peer.dial_not_before = 0.0
                parts(node).peers.request(peer, for_others=True)
            await eventually(lambda n=times * 41: ended() == n)  # type: ignore[misc]
        tokens = BUDGET.burst + BUDGET.per_second * (trio.current_time() - started)
        assert 3 <= len(connected) <= tokens / PER_INFORMANT


@pytest.mark.parametrize("failed", [False, True])
async def test_dials_for_others_do_not_hold_ours_up(failed: bool) -> None:
    """A member may name any number of peers at addresses that never answer."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    mute = Multiaddr(f"/ip4/127.0.0.1/tcp/{listener.socket.getsockname()[1]}")
    async with running_nodes(2, router=EpisubRouter) as (node, other):
        for number in range(20):
            peer = b"\x00\x24\x08\x01\x12\x20" + bytes(31) + bytes([number])
            parts(node).book.found(peer, (mute,))
            parts(node).peers.request(peers_of(node)[peer], for_others=True)
        await eventually(lambda: count(node, Ordinary.DIALS) > 0)
        parts(node).book.found(other.id.to_bytes(), tuple(other.info.addrs))
        record(node, other).dial_pause = float(failed)  # the last time, and now may be tried again
        parts(node).peers.request(record(node, other))
        await eventually(lambda: record(node, other).state is PeerState.WRITABLE)
        assert count(node, Reason.DIAL_FAILED) == 0
    await listener.aclose()


async def test_peers_that_a_prune_names_do_not_hold_ours_up() -> None:
    """One RPC may have any number of PRUNEs, with sixteen peers that answer nothing in each."""
    [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    named = [
        rpc_pb2.PeerInfo(peerID=key, signedPeerRecord=signed)
        for key, signed in (made_up(number, [port]) for number in range(1, 301))
    ]
    async with running_nodes(2, router=EpisubRouter) as (node, other):
        bridge = router(node)._bridge
        assert bridge is not None
        bridge._connect_to(named)
        await eventually(lambda: count(node, Ordinary.DIALS) > 0)
        assert len(peers_of(node)) < 150, "what isn't dialled needs no record"
        parts(node).book.found(other.id.to_bytes(), tuple(other.info.addrs))
        parts(node).peers.request(record(node, other))
        await eventually(lambda: record(node, other).state is PeerState.WRITABLE)
        assert count(node, Reason.DIALS_FULL) == 0
    await listener.aclose()


async def test_a_direct_peer_is_dialled_where_the_operator_says() -> None:
    """Whatever its record says, which may be from elsewhere, and whoever brought that, and whatever
    failed before."""
    async with running_nodes(1, router=EpisubRouter) as [other]:
        info = PeerInfo(other.id, other.info.addrs)
        elsewhere = [Multiaddr(f"/ip4/127.0.0.1/tcp/{port}") for port in (2, 3, 4)]
        keys = other.host.get_private_key()
        signed = seal_record(PeerRecord(other.id, elsewhere, 2**62), keys).marshal_envelope()
        direct = EpisubRouter(
            direct_peers=[info], fallback=FallbackParams(direct_connect_interval=1)
        )
        async with running_nodes(1, router=lambda: direct, seed=1) as [node]:
            await eventually(lambda: record(node, other).state is PeerState.WRITABLE)
            await node.host.disconnect(other.id)
            await eventually(lambda: not peers_of(node).is_connected(other.id))
            assert parts(node).book.learn(other.id.to_bytes(), signed, b"hostile")
            record(node, other).dial_not_before = inf
            await eventually(lambda: record(node, other).state is PeerState.WRITABLE)


async def test_a_direct_peer_that_is_there_waits_for_none_that_answer_nothing() -> None:
    public = [create_new_key_pair(bytes([number]) * 32).public_key for number in range(100, 120)]
    gone = [ID.from_pubkey(key) for key in public]

    async def say_nothing(_: trio.SocketStream) -> None:
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery, running_nodes(1, router=EpisubRouter) as [other]:
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, say_nothing, [listener])
        mute = [Multiaddr(f"/ip4/127.0.0.1/tcp/{listener.socket.getsockname()[1]}")]
        direct = EpisubRouter(
            direct_peers=[other.info, *(PeerInfo(peer, mute) for peer in gone)],
            fallback=FallbackParams(direct_connect_interval=1),
            router_params=RouterParams(dial_timeout=0.5),
        )
        async with running_nodes(1, router=lambda: direct, seed=1) as [node]:
            known = peers_of(node)
            await eventually(lambda: is_connected(node, other))
            await eventually(lambda: all(known[peer.to_bytes()].dial_pause for peer in gone))
            dials = count(node, Ordinary.DIALS)
            await eventually(lambda: count(node, Ordinary.DIALS) > dials)
            await node.host.disconnect(other.id)
            await eventually(lambda: is_connected(node, other))
            assert count(node, Ordinary.DIALS) - dials < len(gone) / 2
        nursery.cancel_scope.cancel()


async def test_a_peer_without_a_known_address_is_not_dialled() -> None:
    async with running_nodes(1, router=EpisubRouter) as [node]:
        peer = peers_of(node)[b"\x00\x24\x08\x01\x12\x20" + bytes(32)]
        parts(node).peers.request(peer)
        await eventually(lambda: count(node, Reason.DIAL_NO_ADDRESS) == 1)
        parts(node).peers.request(peer)
        await eventually(lambda: count(node, Reason.DIAL_BACKED_OFF) == 1)
        assert count(node, Ordinary.DIALS) == 0


async def test_a_corrected_address_is_dialled_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """py-libp2p refuses to for a minute, and then dials the old address."""
    monkeypatch.setattr(peers, "DIAL_BACKOFF", 1e-6)
    async with running_nodes(2, router=EpisubRouter) as (node, other):
        [listener] = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listener.socket.getsockname()[1]
        await listener.aclose()
        wrong = Multiaddr(f"/ip4/127.0.0.1/tcp/{port}")
        node.host.get_peerstore().add_addrs(other.id, [wrong], 120)
        peer = record(node, other)
        parts(node).peers.request(peer)
        await eventually(lambda: count(node, Reason.DIAL_FAILED) == 1)
        envelope = parts(other).framer.record(peer.key)
        assert envelope is not None
        assert parts(node).book.learn(peer.key, envelope)
        parts(node).peers.request(peer)
        await node.pubsub.wait_for_peer(other.id)


@pytest.mark.parametrize("pubsub_class", [Pubsub, ResilientPubsub])
async def test_a_stream_that_dies_while_its_connection_lives_is_replaced(
    pubsub_class: type[Pubsub],
) -> None:
    """With GossipSub, no message comes through any more in that direction, for good."""
    async with overlay_of(2, pubsub_class=pubsub_class) as (nodes, subscriptions):
        sender, receiver = nodes
        broken = sender.pubsub.peers[receiver.id]
        await broken.reset()
        await sender.pubsub.publish(TOPIC, b"into the broken stream")
        await eventually(lambda: sender.pubsub.peers.get(receiver.id) not in (None, broken))
        # The link has stood all the while, and what was lost with the stream is pulled.
        assert router(sender).mesh[TOPIC] == {receiver.id}
        assert router(receiver).mesh[TOPIC] == {sender.id}
        assert record(sender, receiver).state is PeerState.WRITABLE
        with trio.fail_after(PATIENCE):
            await _until(subscriptions[1], b"into the broken stream")
        await sender.pubsub.wait_for_subscription(receiver.id, TOPIC)
        await sender.pubsub.publish(TOPIC, b"afterwards")
        await receiver.pubsub.publish(TOPIC, b"and back")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_until, subscriptions[1], b"afterwards")
            nursery.start_soon(_until, subscriptions[0], b"and back")


async def _until(subscription: object, data: bytes) -> None:
    while [m.data for m in await receive(subscription)] != [data]:  # type: ignore[arg-type]
        pass


async def test_rtts_are_measured() -> None:
    async with overlay_of(2) as (nodes, _):
        await eventually(lambda: router(nodes[0]).overlay(TOPIC).active[0].rtt is not None)
        rtt = router(nodes[0]).overlay(TOPIC).active[0].rtt
        assert rtt is not None
        assert 0 < rtt < 2


async def test_waiting_for_a_neighbor_that_does_not_come() -> None:
    async with running_nodes(2, router=EpisubRouter) as (node, other):
        await node.pubsub.subscribe(TOPIC)
        with pytest.raises(trio.TooSlowError):
            await node.pubsub.wait_for_mesh(other.id, TOPIC, timeout=0.05)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(node.pubsub.wait_for_mesh, other.id, TOPIC)
            await connect(node, other)
            await other.pubsub.subscribe(TOPIC)
