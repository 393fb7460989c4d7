"""The package under asyncio: trio, which py-libp2p needs, runs in a thread of its own.

    async with episub_router.aio.open("news", bootstrap=[...]) as topic:
        await topic.publish(b"hello")
        async for message in topic: ...

`open` is `episub_router.open`. The rest of the package is trio's: use its async context managers
through `enter`, its async functions through `call` and its async iterators through `iterate`.
"""

from episub_router.aio.handle import AsyncioTopic, open
from episub_router.aio.trio_thread import call, enter, iterate

__all__ = ["AsyncioTopic", "call", "enter", "iterate", "open"]
