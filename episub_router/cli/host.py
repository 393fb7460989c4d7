"""A py-libp2p host with pubsub for the commands: its key in a file, its peers dialled again."""

from __future__ import annotations

import os
from argparse import ArgumentParser, Namespace
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import trio
from libp2p import new_host
from libp2p.abc import IHost
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.custom_types import TProtocol
from libp2p.peer.peerinfo import info_from_p2p_addr
from libp2p.pubsub.gossipsub import GossipSub
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

from episub_router.pubsub import ResilientPubsub

_MESHSUB = TProtocol("/meshsub/1.1.0")
_REDIAL = 5.0


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
        help="multiaddress, with /p2p/<id>, of a peer to connect to; may be repeated",
    )
    parser.add_argument("--key", type=Path, help="file with this node's key; made if there is none")


@asynccontextmanager
async def running_host(args: Namespace) -> AsyncIterator[RunningHost]:
    """Run a host with GossipSub as the arguments say, and keep its `--connect` peers."""
    host = new_host(key_pair=create_new_key_pair(_seed(args.key)))
    router = GossipSub(
        protocols=[_MESHSUB],
        degree=6,
        degree_low=4,
        degree_high=12,
        heartbeat_interval=1,
        adaptive_gossip_enabled=False,
        spam_protection_enabled=False,
    )
    # Its default scores make opportunistic grafting empty the mesh of whole hosts.
    router.scorer = None
    pubsub = ResilientPubsub(host, router)
    async with (
        host.run([args.listen]),
        background_trio_service(pubsub),
        background_trio_service(router),
        trio.open_nursery() as nursery,
    ):
        await pubsub.wait_until_ready()
        nursery.start_soon(_keep_connected, host, args.connect)
        yield RunningHost(host, pubsub)
        nursery.cancel_scope.cancel()


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


async def _keep_connected(host: IHost, addresses: Sequence[Multiaddr]) -> None:
    peers = [info_from_p2p_addr(address) for address in addresses]
    while peers:
        for peer in peers:
            if not host.get_network().connections.get(peer.peer_id):
                # py-libp2p's layers raise many unrelated types; who isn't there is tried again
                with trio.move_on_after(_REDIAL), suppress(Exception):
                    await host.connect(peer)
        await trio.sleep(_REDIAL)
