"""Validators: what they refuse is neither delivered nor forwarded."""

import trio
from libp2p.peer.id import ID
from libp2p.pubsub.pb.rpc_pb2 import Message
from pair import pair


def is_a_number(sender: ID, message: Message) -> bool:
    """Called for each new message. A slow one is an `async def`, with `is_async_validator=True`."""
    return message.data.isdigit()


async def main() -> None:
    async with pair("numbers") as (one, two):
        two.set_topic_validator("numbers", is_a_number, is_async_validator=False)
        subscription = await two.subscribe("numbers")
        for data in (b"1", b"two", b"3"):
            await one.publish("numbers", data)
        for _ in range(2):
            print("valid:", (await subscription.get()).data.decode())


trio.run(main)
