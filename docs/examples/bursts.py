"""A burst: `publish` waits for the slowest neighbour, `publish_nowait` doesn't."""

import trio
from pair import pair

from episub_router import BacklogFull, PublishTimeout

MESSAGES = 500


async def main() -> None:
    async with pair("burst") as (one, two):
        subscription = await two.subscribe("burst")
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def burst() -> None:
                for _ in range(MESSAGES):
                    # Waits while the backlog is full; nothing is dropped.
                    await one.publish("burst", bytes(1000))

            for _ in range(MESSAGES):
                await subscription.get()
        print(f"{MESSAGES} of {MESSAGES} arrived")

        refused = 0
        for _ in range(MESSAGES):
            try:
                await one.publish_nowait("burst", bytes(1000))
            except BacklogFull:
                refused += 1  # nobody has it, this node included
        print("without waiting some were refused:", refused > 0)

        try:
            for _ in range(MESSAGES):
                await one.publish("burst", bytes(100_000), timeout=0.001)
        except PublishTimeout as error:
            print("a time-out says which neighbour is behind:", "12D3" in str(error) or error)


trio.run(main)
