"""Real py-libp2p hosts on loopback for tests: start them, join them, take them down.

    async with running_nodes(3, router=lambda: FloodSub([FLOODSUB])) as (a, b, c):
        await connect_all([(a, b), (b, c)])

A node that dies while the test runs fails the test, unless the test waited for that death
with `Node.crashed()` or asked for it with `Node.kill()`.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import trio
from libp2p import new_host
from libp2p.abc import IHost, IPubsubRouter, ISubscriptionAPI
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.custom_types import TProtocol
from libp2p.network.swarm import Swarm
from libp2p.peer.id import ID
from libp2p.peer.peerinfo import PeerInfo
from libp2p.pubsub.gossipsub import PROTOCOL_ID_V12, GossipSub
from libp2p.pubsub.pb.rpc_pb2 import Message
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service import Service, background_trio_service
from multiaddr import Multiaddr

LOOPBACK = Multiaddr("/ip4/127.0.0.1/tcp/0")
PATIENCE = 180.0
"""Seconds that a test waits for something that is sure to happen: on a busy machine, not soon."""


def bounded_gossipsub(protocol: TProtocol = PROTOCOL_ID_V12, **options: Any) -> GossipSub:
    """A stock router whose mesh keeps within its degrees; with its defaults it doesn't."""
    options = {"degree": 6, "degree_low": 4, "degree_high": 12, **options}
    router = GossipSub(
        [protocol],
        heartbeat_interval=1,
        spam_protection_enabled=False,
        adaptive_gossip_enabled=False,
        **options,
    )
    router.scorer = None
    return router


class Node:
    """A host with its pubsub and router, all running in one task."""

    def __init__(
        self, host: IHost, pubsub: Pubsub, router: IPubsubRouter, listen: Sequence[Multiaddr]
    ) -> None:
        self.host = host
        self.pubsub = pubsub
        self.router = router
        self.failure: Exception | None = None
        self.stopped = trio.Event()
        self._listen = listen
        self._scope = trio.CancelScope()
        self._death_expected = False

    @property
    def id(self) -> ID:
        return self.host.get_id()

    @property
    def info(self) -> PeerInfo:
        """What others need to dial this node."""
        return PeerInfo(self.id, self.host.get_transport_addrs())

    async def kill(self) -> None:
        """Stop at once, without a goodbye; the sockets close as in a crashed process."""
        self._death_expected = True
        self._scope.cancel()
        await self.stopped.wait()

    async def crashed(self) -> Exception:
        """Wait until the node dies of an error and return it."""
        self._death_expected = True
        with trio.fail_after(PATIENCE):
            await self.stopped.wait()
        assert self.failure is not None, "the node was stopped, it didn't crash"
        return self.failure

    async def _run(self, *, task_status: Any) -> None:
        try:
            with self._scope:
                async with AsyncExitStack() as stack:
                    await stack.enter_async_context(self.host.run(self._listen))
                    await stack.enter_async_context(background_trio_service(self.pubsub))
                    if isinstance(self.router, Service):
                        await stack.enter_async_context(background_trio_service(self.router))
                    await self.pubsub.wait_until_ready()
                    task_status.started()
                    await trio.sleep_forever()
        except Exception as error:
            # A swarm that is stopped under traffic raises of its own accord.
            if not self._scope.cancel_called:
                self.failure = error
        finally:
            self.pubsub.seen_messages.stop()  # else its sweeper thread stays for ever
            self.stopped.set()


@asynccontextmanager
async def running_nodes(
    count: int,
    *,
    router: Callable[[], IPubsubRouter],
    pubsub_class: type[Pubsub] = Pubsub,
    pubsub_options: Mapping[str, Any] | None = None,
    auto_connect: bool = False,
    seed: int = 0,
    listen: Sequence[Multiaddr] = (LOOPBACK,),
) -> AsyncIterator[list[Node]]:
    """Run `count` unconnected nodes, with Ed25519 keys that are the same in every run.

    Two calls with different `seed`s run side by side, for nodes of two kinds in one network.
    `auto_connect=False` stops py-libp2p's auto-connector, which otherwise dials every peer it
    hears of and undoes disconnections after a minute. With an empty `listen` nobody can dial them.
    """
    nodes: list[Node] = []
    test_error: Exception | None = None
    async with trio.open_nursery() as nursery:
        try:
            for index in range(count):
                host = new_host(
                    key_pair=create_new_key_pair(
                        seed.to_bytes(16, "big") + index.to_bytes(16, "big")
                    ),
                    muxer_preference="YAMUX",
                )
                own_router = router()
                pubsub = pubsub_class(host, own_router, **(pubsub_options or {}))
                node = Node(host, pubsub, own_router, listen)
                nodes.append(node)
                await nursery.start(node._run)
                network = host.get_network()
                assert isinstance(network, Swarm)
                if not auto_connect:
                    await network.auto_connector.stop()
            yield nodes
        except Exception as error:
            test_error = error  # raised outside the nursery, which would wrap it in a group
        finally:
            died = [n.failure for n in nodes if n.failure and not n._death_expected]
            for node in nodes:
                node._scope.cancel()
    if test_error is not None:
        for failure in died:
            test_error.add_note(f"A node died before: {failure!r}")
        raise test_error
    if died:
        raise ExceptionGroup(f"{len(died)} of {count} nodes died during the test", died)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


async def connect(dialler: Node, listener: Node) -> None:
    """Connect two nodes and wait until both have a pubsub stream to the other."""
    with trio.fail_after(PATIENCE):
        await dialler.host.connect(listener.info)
        await dialler.pubsub.wait_for_peer(listener.id, timeout=PATIENCE)
        await listener.pubsub.wait_for_peer(dialler.id, timeout=PATIENCE)


async def connect_all(pairs: Iterable[tuple[Node, Node]]) -> None:
    """Connect pairs side by side: each dial alone takes py-libp2p 250 ms."""
    async with trio.open_nursery() as nursery:
        for dialler, listener in pairs:
            nursery.start_soon(connect, dialler, listener)


async def subscribe_all(nodes: Iterable[Node], topic: str) -> list[ISubscriptionAPI]:
    """Subscribe nodes and wait until each connected pair of them knows of it."""
    nodes = list(nodes)
    subscriptions = [await node.pubsub.subscribe(topic) for node in nodes]
    for node in nodes:
        for other in nodes:
            if other.id in node.pubsub.peers:
                await node.pubsub.wait_for_subscription(other.id, topic, timeout=PATIENCE)
    return subscriptions


async def receive(subscription: ISubscriptionAPI, count: int = 1) -> list[Message]:
    """The next `count` messages of a subscription, in order of arrival."""
    with trio.fail_after(PATIENCE):
        return [await subscription.get() for _ in range(count)]


async def eventually(condition: Callable[[], bool], patience: float = PATIENCE) -> None:
    """Wait for a state that py-libp2p gives no event for, `patience` seconds at most."""
    with trio.fail_after(patience):
        while not condition():  # noqa: ASYNC110 (there is no event to wait for)
            await trio.sleep(0.005)
