"""Large messages go in pieces, up to 16 MiB; whole ones, here unsigned, have to fit an RPC."""

from hashlib import sha256

import trio
from pair import pair

from episub_router import EpisubRouter, MessageTooLarge, SignaturePolicy
from episub_router.net.params import RouterParams

MIB = 2**20


async def main() -> None:
    async with pair("files") as (one, two):
        await one.publish("files", bytes(8 * MIB))
        message = await (await two.subscribe("files")).get()
        print(f"received: {len(message.data):,} bytes")
        try:
            await one.publish("files", bytes(16 * MIB))
        except MessageTooLarge as error:
            print(f"refused: at most {error.limit:,} bytes, with the signature")

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
