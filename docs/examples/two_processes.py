"""Two processes that talk. Start the first, then the second with the address that it printed:

python two_processes.py
python two_processes.py /ip4/127.0.0.1/tcp/.../p2p/...
"""

import sys

import trio
from libp2p import new_host
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

from episub_router import EpisubRouter, ResilientPubsub


async def main(bootstrap: list[str]) -> None:
    host = new_host()
    router = EpisubRouter(bootstrap=bootstrap)
    pubsub = ResilientPubsub(host, router)
    async with (
        host.run([Multiaddr("/ip4/127.0.0.1/tcp/0")]),
        background_trio_service(pubsub),
        background_trio_service(router),
    ):
        subscription = await pubsub.subscribe("news")
        print("listening on", host.get_addrs()[0], flush=True)
        # What is published before there is a neighbour waits for ten seconds, and reaches nobody
        # after that.
        await router.joined("news", timeout=300)
        if bootstrap:
            await pubsub.publish("news", b"hello from the second")
        while True:
            message = await subscription.get()
            if message.from_id == host.get_id().to_bytes():
                continue  # our own
            print("received:", message.data.decode(), flush=True)
            if bootstrap:
                return
            await pubsub.publish("news", b"hello from the first")


if __name__ == "__main__":
    try:
        trio.run(main, sys.argv[1:])
    except* KeyboardInterrupt:
        print("bye")
