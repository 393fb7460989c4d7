"""What the commands with channels have in common: a host, and a store that can be opened."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager

from libp2p import new_host
from libp2p.abc import IHost, IPubsubRouter
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service import Service, background_trio_service

from episub_router import EpisubRouter, ResilientPubsub
from episub_router.addresses import check_free
from episub_router.cli.arguments import CommandError
from episub_router.cli.keys import load_or_create
from episub_router.cli.quiet import quiet_libp2p
from episub_router.metrics import served
from episub_router.sds import StoreError


@asynccontextmanager
async def running_host(args: Namespace) -> AsyncIterator[IHost]:
    """Run a host as the arguments say. Raises CommandError for an occupied port."""
    host = _host(args)
    async with host.run([args.listen]):
        yield host


def _host(args: Namespace) -> IHost:
    quiet_libp2p()
    try:
        check_free(args.listen)
    except OSError as error:
        raise CommandError(str(error)) from error
    return new_host(
        key_pair=load_or_create(args.key) if args.key else create_new_key_pair(),
        announce_addrs=args.announce or None,
    )


@asynccontextmanager
async def running_pubsub(args: Namespace, router: IPubsubRouter) -> AsyncIterator[Pubsub]:
    """Run a host as the arguments say, with `router`. Raises CommandError for an occupied port."""
    host = _host(args)
    pubsub = ResilientPubsub(host, router)
    assert isinstance(router, Service)
    async with (
        host.run([args.listen]),
        background_trio_service(pubsub),
        background_trio_service(router),
    ):
        await pubsub.wait_until_ready()
        yield pubsub


def episub(args: Namespace) -> EpisubRouter:
    """The router that joins through `--bootstrap`. Raises CommandError for bad addresses."""
    try:
        return EpisubRouter(bootstrap=args.bootstrap)
    except ValueError as error:
        raise CommandError(str(error)) from error


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
    """Turn what is wrong with a store or an address into one line."""
    try:
        yield
    except* (StoreError, OSError) as group:
        errors = _flat(group)
        raise CommandError("; ".join(str(e) for e in errors)) from errors[0]


def _flat(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for part in error.exceptions for leaf in _flat(part)]
    return [error]
