"""A py-libp2p host with Episub: started, watched, and stopped without losing what was sent last."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import trio
from libp2p import new_host
from libp2p.abc import IHost, INetworkService
from libp2p.crypto.keys import KeyPair
from libp2p.peer.id import ID
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

from episub_router.addresses import AddressFilter, check_free, dialable, is_circuit, is_wildcard
from episub_router.net.connections.circuits import RelayPlaces
from episub_router.net.connections.closing import close_within
from episub_router.net.connections.kernel import socket_below
from episub_router.net.connections.ping import measure_rtt
from episub_router.pubsub import PubsubParams, ResilientPubsub
from episub_router.router import EpisubRouter
from episub_router.util.errors import has_cancelled, single
from episub_router.util.load_aware import load_aware

logger = logging.getLogger(__name__)

LOOPBACK = Multiaddr("/ip4/127.0.0.1/tcp/0")

FAREWELL = 2.0
"""Seconds that leaving may take."""


class NodeStopped(RuntimeError):
    """The node died of an error, which is the `__cause__` of this one."""


class EpisubHost:
    """A host over TCP, Noise and Yamux with a `ResilientPubsub` and `router`.

    It listens at `listen`, where circuit addresses are relays that it takes a place at, and gives
    others the addresses in `announce`, by default those that it listens at. `failure` holds the
    error that ended it, if one did; `stopped` is set once it has stopped, for whatever reason.
    """

    def __init__(
        self,
        router: EpisubRouter,
        *,
        key_pair: KeyPair | None = None,
        listen: Sequence[Multiaddr] = (LOOPBACK,),
        announce: Sequence[Multiaddr] = (),
        pubsub_params: PubsubParams | None = None,
    ) -> None:
        if not (libp2p := logging.getLogger("libp2p")).hasHandlers():
            # It passes nothing on without LIBP2P_DEBUG; then Python prints its warnings.
            libp2p.addHandler(logging.NullHandler())
        self._listen = [address for address in listen if not is_circuit(address)]
        self._relays = RelayPlaces([address for address in listen if is_circuit(address)])
        expand: AddressFilter = dialable() if any(map(is_wildcard, listen)) else list
        self.host = new_host(
            key_pair=key_pair,
            muxer_preference="YAMUX",
            addrs_factory=lambda own: [*(announce or expand(own)), *self._relays.addresses],
        )
        self.router = router
        self.pubsub = ResilientPubsub(self.host, router, params=pubsub_params)
        self.failure: Exception | None = None
        self.stopped = trio.Event()
        self._stopping = trio.Event()
        self._scope = trio.CancelScope()

    @property
    def id(self) -> ID:
        return self.host.get_id()

    @property
    def addresses(self) -> list[Multiaddr]:
        """Full addresses, with /p2p/, at which others reach this host."""
        return self.host.get_addrs()

    async def run(self, *, task_status: Any = trio.TASK_STATUS_IGNORED) -> None:
        """Run until `stop` or `crash`, or an error, which goes to `failure`.

        Raises what goes wrong before the host is ready, for example OSError for an address.
        """
        try:
            for address in self._listen:
                check_free(address)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._stop_when_cancelled)
                try:
                    with self._scope:
                        await self._serve(task_status)
                except Exception as error:
                    if not self._scope.shield:
                        raise
                    # A swarm that is stopped under traffic raises of its own accord.
                    if not self._stopping.is_set():
                        self.failure = error
                nursery.cancel_scope.cancel()
        except Exception as error:
            raise single(error) from None
        finally:
            self.pubsub.seen_messages.stop()  # its thread would stay for ever
            self.stopped.set()
            if self.failure is None:
                logger.info("stopped")
            else:
                logger.error("stopped: %r", self.failure)

    async def _serve(self, task_status: Any) -> None:
        """Start all parts, and end them after `stop`. Once they run, they are not cancelled but by
        `_scope` itself."""
        network = self.host.get_network()
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self.host.run(self._listen))
            stack.push_async_callback(_hang_up, network)
            for address in self._listen:
                if str(address) not in network.listeners:
                    raise OSError(f"can't listen on {address}: only TCP is there")
            await stack.enter_async_context(background_trio_service(self.pubsub))
            await stack.enter_async_context(background_trio_service(self.router))
            await self.pubsub.wait_until_ready()
            await stack.enter_async_context(self._relays.kept(self.host))
            self._scope.shield = True
            logger.info("started: %s", ", ".join(map(str, self.addresses)))
            task_status.started()
            await self._stopping.wait()
            self._scope.deadline = trio.current_time() + FAREWELL

    def stop(self) -> None:
        """Begin to stop."""
        self._stopping.set()

    def crash(self) -> None:
        """Be gone at once, for the peers as well: no goodbye of any layer gets out."""
        for connection in self.host.get_network().get_connections():
            socket = socket_below(connection.muxed_conn)
            if socket is not None:
                socket.close()
        self._stopping.set()
        self._scope.cancel()

    async def _stop_when_cancelled(self) -> None:
        """A py-libp2p that is cancelled leaves its sockets open."""
        try:
            await trio.sleep_forever()
        finally:
            self._stopping.set()


async def _hang_up(network: INetworkService) -> None:
    """Close all connections at once, for which py-libp2p takes 0.2 s each, and before them what
    would accept others."""
    with trio.CancelScope(shield=True):
        async with trio.open_nursery() as nursery:
            for listener in network.listeners.values():
                nursery.start_soon(listener.close)
        async with trio.open_nursery() as nursery:
            for connection in network.get_connections():
                nursery.start_soon(close_within, connection, FAREWELL)


@asynccontextmanager
async def running(node: EpisubHost) -> AsyncIterator[None]:
    """Run `node` around the body.

    What the body raises comes out as itself, not in a group; where it is cancelled, the node runs
    until its end. Raises NodeStopped if the node dies meanwhile, and what goes wrong before it is
    ready.
    """
    raised: BaseException | None = None

    async def run(*, task_status: Any) -> None:
        async with trio.open_nursery() as nursery:
            await nursery.start(node.run)
            nursery.cancel_scope.shield = True
            task_status.started()

    try:
        async with trio.open_nursery() as nursery:
            await nursery.start(run)

            @nursery.start_soon
            async def watch() -> None:
                await node.stopped.wait()
                nursery.cancel_scope.cancel()

            try:
                yield
            except BaseException as error:
                if has_cancelled(error):
                    raise
                raised = error
            finally:
                node.stop()
    except BaseExceptionGroup as group:
        raise single(group) from None
    if raised is not None:
        raise raised
    if node.failure is not None:
        raise NodeStopped(f"the node stopped: {node.failure!r}") from node.failure


async def frames_arrive(host: IHost, router: EpisubRouter, neighbors: Iterable[ID]) -> None:
    """Wait until `neighbors` have everything that was sent; at most FAREWELL seconds, or longer
    where the event loop is behind."""
    async with load_aware(FAREWELL):
        await router.wait_for_room(0)
        for peer in neighbors:
            # An echo means that what was written before has arrived, too.
            with suppress(Exception):
                await measure_rtt(host, peer)
