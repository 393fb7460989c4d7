"""A py-libp2p host with EpisubRouter for the commands, its key in a file."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from libp2p import new_host
from libp2p.abc import IHost
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

from episub_router.pubsub import ResilientPubsub
from episub_router.router import EpisubRouter


@dataclass(frozen=True, slots=True)
class RunningHost:
    """What a command works with."""

    host: IHost
    pubsub: Pubsub


def add_host_arguments(parser: ArgumentParser) -> None:
    """`--listen`, `--connect` and `--key`."""
    parser.add_argument(
        "--listen",
        type=Multiaddr,
        default=Multiaddr("/ip4/127.0.0.1/tcp/0"),
        metavar="ADDRESS",
        help="multiaddress to listen on (default: %(default)s)",
    )
    parser.add_argument(
        "--connect",
        type=Multiaddr,
        action="append",
        default=[],
        metavar="ADDRESS",
        help="multiaddress, with /p2p/<id>, of a peer to join through; may be repeated",
    )
    parser.add_argument("--key", type=Path, help="file with this node's key; made if there is none")


@asynccontextmanager
async def running_host(
    args: Namespace, router: GossipSub | None = None
) -> AsyncIterator[RunningHost]:
    """Run a host as the arguments say, joining topics through its `--connect` peers.

    `router` replaces EpisubRouter; `--connect` is then up to the caller.
    """
    host = new_host(key_pair=create_new_key_pair(_seed(args.key)))
    service = router or EpisubRouter(bootstrap=args.connect)
    pubsub = ResilientPubsub(host, service)
    async with (
        host.run([args.listen]),
        background_trio_service(pubsub),
        background_trio_service(service),
    ):
        await pubsub.wait_until_ready()
        yield RunningHost(host, pubsub)


def _seed(path: Path | None) -> bytes:
    """The 32 bytes that the key is made of. Raises SystemExit for a file that isn't one."""
    if path is None:
        return os.urandom(32)
    if not path.exists():
        path.touch(mode=0o600)
        path.write_bytes(os.urandom(32))
    seed = path.read_bytes()
    if len(seed) != 32:
        raise SystemExit(f"{path} is no key file: it has {len(seed)} bytes instead of 32")
    return seed
