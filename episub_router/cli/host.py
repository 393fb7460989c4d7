"""What the commands with channels have in common: a host, and a store that can be opened."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from libp2p import new_host
from libp2p.abc import IPubsubRouter
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service import Service, background_trio_service
from multiaddr import Multiaddr
from multiaddr.exceptions import Error as MultiaddrError

from episub_router import EpisubRouter, ResilientPubsub
from episub_router.cli.addresses import check_free
from episub_router.cli.arguments import CommandError
from episub_router.cli.keys import load_or_create
from episub_router.sds import StoreError


def add_host_arguments(parser: ArgumentParser) -> None:
    """`--listen`, `--bootstrap` and `--key`."""
    parser.add_argument(
        "--listen",
        type=_address,
        default=Multiaddr("/ip4/127.0.0.1/tcp/0"),
        metavar="MULTIADDR",
        help="where to listen (default: %(default)s, this machine only)",
    )
    parser.add_argument(
        "--bootstrap",
        nargs="+",
        action="extend",
        default=[],
        type=_address,
        metavar="MULTIADDR",
        help="full addresses, with /p2p/, of nodes to join through",
    )
    parser.add_argument(
        "--key",
        type=Path,
        metavar="FILE",
        help="identity key; made if there is no such file (default: a new key for each run)",
    )


@asynccontextmanager
async def running_pubsub(args: Namespace, router: IPubsubRouter) -> AsyncIterator[Pubsub]:
    """Run a host as the arguments say, with `router`. Raises CommandError for an occupied port."""
    if any(protocol.name == "tcp" for protocol in args.listen.protocols()):
        check_free(args.listen)
    host = new_host(key_pair=load_or_create(args.key) if args.key else create_new_key_pair())
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


def _address(text: str) -> Multiaddr:
    try:
        return Multiaddr(text)
    except (MultiaddrError, ValueError) as error:
        raise ArgumentTypeError(f"{text!r} is no multiaddress") from error
