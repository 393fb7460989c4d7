"""Large messages go in pieces, up to 16 MiB; whole ones, here unsigned, have to fit an RPC."""

import sys
from collections.abc import AsyncIterable
from hashlib import sha256

import trio
from pair import pair

from episub_router import EpisubRouter, LargeProgress, LargeSent, MessageTooLarge, SignaturePolicy
from episub_router.net.params import RouterParams

MIB = 2**20


async def show(events: AsyncIterable[object]) -> None:
    """A bar for what comes, and how many neighbours have what goes."""
    async for event in events:
        if isinstance(event, LargeProgress):
            bar = "#" * (40 * event.received // event.size)
            print(f"[{bar:<40}] {event.received:,} bytes", end="\r", file=sys.stderr)
        elif isinstance(event, LargeSent) and event.neighbors:
            print(f"sent to {event.neighbors} neighbour", file=sys.stderr)


async def main() -> None:
    async with pair("files") as (one, two), trio.open_nursery() as nursery:
        for pubsub in (one, two):
            assert isinstance(pubsub.router, EpisubRouter)
            nursery.start_soon(show, pubsub.router.events("files"))
        await one.publish("files", bytes(8 * MIB))
        message = await (await two.subscribe("files")).get()
        print(f"received: {len(message.data):,} bytes")
        try:
            await one.publish("files", bytes(16 * MIB))
        except MessageTooLarge as error:
            print(f"refused: at most {error.limit:,} bytes, with the signature")
        nursery.cancel_scope.cancel()

    def router() -> EpisubRouter:
        # Four of the largest messages may wait for each neighbour.
        return EpisubRouter(router_params=RouterParams(backlog_bytes=16 * MIB))

    unsigned = {
        "signature_policy": SignaturePolicy.STRICT_NO_SIGN,
        "msg_id_constructor": lambda message: sha256(message.data).digest(),
    }
    async with pair("files", router, max_inbound_rpc_size=4 * MIB, **unsigned) as (one, two):
        await one.publish("files", bytes(2 * MIB))
        message = await (await two.subscribe("files")).get()
        print(f"received whole: {len(message.data):,} bytes")


trio.run(main)
