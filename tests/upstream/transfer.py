"""A megabyte over one stream of two hosts, in writes of 32 KiB: prints how often the receiver reads
its socket, and how many window updates it sends."""

from __future__ import annotations

from collections import Counter
from typing import Any

import trio
from libp2p import new_host
from libp2p.network.stream.net_stream import INetStream
from libp2p.peer.peerinfo import PeerInfo
from libp2p.stream_muxer.yamux.yamux import YamuxStream
from multiaddr import Multiaddr

PROTOCOL: Any = "/transfer/1"
_CHUNK = 32 * 1024
_CHUNKS = 32


async def main() -> None:
    counts: Counter[str] = Counter()
    receive_some = trio.SocketStream.receive_some
    send_update = YamuxStream.send_window_update

    async def counted_receive(self: Any, *arguments: Any) -> Any:
        counts["reads"] += 1
        return await receive_some(self, *arguments)

    async def counted_update(self: Any, *arguments: Any, **options: Any) -> None:
        counts["updates"] += 1
        await send_update(self, *arguments, **options)

    sender, receiver = new_host(), new_host()
    taken = trio.Event()

    async def take(stream: INetStream) -> None:
        got = 0
        while got < _CHUNK * _CHUNKS:
            got += len(await stream.read(_CHUNK))
            await stream.write(b"k")  # The next one comes when this one was read.
        taken.set()

    receiver.set_stream_handler(PROTOCOL, take)
    listen = [Multiaddr("/ip4/127.0.0.1/tcp/0")]
    async with sender.run(listen), receiver.run(listen):
        await sender.connect(PeerInfo(receiver.get_id(), receiver.get_addrs()))
        stream = await sender.new_stream(receiver.get_id(), [PROTOCOL])
        setattr(trio.SocketStream, "receive_some", counted_receive)  # noqa: B010
        setattr(YamuxStream, "send_window_update", counted_update)  # noqa: B010
        for _ in range(_CHUNKS):
            await stream.write(bytes(_CHUNK))
            await stream.read(1)
        await taken.wait()
        print(counts["reads"], counts["updates"])


if __name__ == "__main__":
    trio.run(main)
