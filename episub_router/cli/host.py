"""What the commands with a host have in common."""

from __future__ import annotations

import logging
from argparse import Namespace
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from libp2p import new_host
from libp2p.abc import IHost
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.crypto.keys import KeyPair
from libp2p.pubsub.pubsub import Pubsub

from episub_router import EpisubRouter
from episub_router.addresses import check_free
from episub_router.cli.arguments import CommandError
from episub_router.cli.keys import load_or_create
from episub_router.host import LOOPBACK, EpisubHost, NodeStopped, running
from episub_router.metrics import served
from episub_router.sds import StoreError


@asynccontextmanager
async def running_host(args: Namespace) -> AsyncIterator[IHost]:
    """Run a host without pubsub as the arguments say. Raises OSError for an occupied port."""
    logging.getLogger("libp2p").addHandler(logging.NullHandler())  # as in EpisubHost
    listen = args.listen or [LOOPBACK]
    for address in listen:
        check_free(address)
    host = new_host(key_pair=_key_pair(args), announce_addrs=args.announce or None)
    async with host.run(listen):
        yield host


def _key_pair(args: Namespace) -> KeyPair:
    return load_or_create(args.key) if args.key else create_new_key_pair()


def episub_host(args: Namespace, router: EpisubRouter) -> EpisubHost:
    """The host that the arguments name. Raises CommandError for a key that can't be used."""
    return EpisubHost(
        router,
        key_pair=_key_pair(args),
        listen=args.listen or [LOOPBACK],
        announce=args.announce,
    )


@asynccontextmanager
async def running_pubsub(args: Namespace, router: EpisubRouter) -> AsyncIterator[Pubsub]:
    """Run the host of `episub_host`. Raises OSError for an occupied port."""
    node = episub_host(args, router)
    async with running(node):
        yield node.pubsub


@asynccontextmanager
async def served_metrics(
    port: int | None, pubsub: Pubsub, router: EpisubRouter
) -> AsyncIterator[None]:
    """Serve the metrics of a node on `port` of loopback, if there is one. Raises CommandError for
    an occupied port."""
    if port is None:
        yield
        return
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(served(port, pubsub, router))
        except OSError as error:
            raise CommandError(str(error)) from error
        yield


@contextmanager
def reported_errors() -> Iterator[None]:
    """Turn what is wrong with a store or an address, or ended the node, into one line."""
    try:
        yield
    except* BrokenPipeError:
        raise  # the reader of our output went away
    except* (StoreError, OSError, NodeStopped) as group:
        errors = _flat(group)
        raise CommandError("; ".join(str(e) for e in errors)) from errors[0]


def _flat(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in _flat(part)]
    return [error]
