"""A channel over SDS: causal order, nothing lost, and the sender knows which members have it."""

import trio
from pair import pair

from episub_router.sds import SdsChannel


async def main() -> None:
    # A channel subscribes by itself, so the pair meets in another topic.
    async with (
        pair("lobby") as (one, two),
        SdsChannel(one, "room") as ann,
        SdsChannel(two, "room") as bob,
    ):
        receipt = await ann.send(b"is anybody there?")
        print("bob receives:", (await anext(bob)).content.decode())
        await bob.send(b"I am")
        print("ann receives:", (await anext(ann)).content.decode())
        await receipt.acknowledged(by=1)
        print("ann's message is acknowledged by", len(receipt.acked_by), "member")
        print("both have the same log:", ann.log == bob.log)


trio.run(main)
