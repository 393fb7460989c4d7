"""A py-libp2p host with Episub, run in one task of this process."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from typing import Any

import trio
from libp2p import new_host
from libp2p.crypto.keys import KeyPair
from libp2p.peer.id import ID
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

from episub_router import EpisubRouter, ResilientPubsub
from episub_router.cli.addresses import dialable, is_wildcard
from episub_router.net.connections.sockets import socket_below

LOOPBACK = Multiaddr("/ip4/127.0.0.1/tcp/0")


class LocalHost:
    """A host over TCP, Noise and Yamux with a `ResilientPubsub` and `router`.

    `failure` holds the error that ended the host, if one did; `stopped` is set once it has
    stopped, for whatever reason.
    """

    def __init__(
        self, key_pair: KeyPair, router: EpisubRouter, listen: Sequence[Multiaddr] = (LOOPBACK,)
    ) -> None:
        self.host = new_host(
            key_pair=key_pair,
            muxer_preference="YAMUX",
            addrs_factory=dialable() if any(map(is_wildcard, listen)) else None,
        )
        self.router = router
        self.pubsub = ResilientPubsub(self.host, router)
        self.failure: Exception | None = None
        self.stopped = trio.Event()
        self._listen = listen
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
        ready = False
        try:
            with self._scope:
                async with AsyncExitStack() as stack:
                    await stack.enter_async_context(self.host.run(self._listen))
                    await stack.enter_async_context(background_trio_service(self.pubsub))
                    await stack.enter_async_context(background_trio_service(self.router))
                    await self.pubsub.wait_until_ready()
                    ready = True
                    task_status.started()
                    await trio.sleep_forever()
        except Exception as error:
            if not ready:
                raise
            # A swarm that is stopped under traffic raises of its own accord.
            if not self._scope.cancel_called:
                self.failure = error
        finally:
            self.pubsub.seen_messages.stop()  # its thread would stay for ever
            self.stopped.set()

    def stop(self) -> None:
        """Begin to stop."""
        self._scope.cancel()

    def crash(self) -> None:
        """Be gone at once, for the peers as well: no goodbye of any layer gets out."""
        for connection in self.host.get_network().get_connections():
            # Cancelling a host leaves its sockets open.
            socket = socket_below(connection.muxed_conn)
            if socket is not None:
                socket.close()
        self._scope.cancel()


def quiet_libp2p() -> None:
    """Keep py-libp2p's warnings, for example of peers that vanish, out of the terminal.

    Its LIBP2P_DEBUG brings them back.
    """
    if not os.environ.get("LIBP2P_DEBUG"):
        logging.getLogger("libp2p").addHandler(logging.NullHandler())
