"""The limit of a message's size, and how to raise it: at every node of the topic."""

import trio
from pair import pair

from episub_router import EpisubRouter, MessageTooLarge
from episub_router.net.params import RouterParams

MIB = 2**20


async def main() -> None:
    async with pair("files") as (one, _):
        try:
            await one.publish("files", bytes(2 * MIB))
        except MessageTooLarge as error:
            print(f"refused: at most {error.limit:,} bytes, with the signature")

    def router() -> EpisubRouter:
        # Four of the largest messages may wait for each neighbour.
        return EpisubRouter(router_params=RouterParams(backlog_bytes=16 * MIB))

    async with pair("files", router, max_inbound_rpc_size=4 * MIB) as (one, two):
        await one.publish("files", bytes(2 * MIB))
        message = await (await two.subscribe("files")).get()
        print(f"received: {len(message.data):,} bytes")


trio.run(main)
