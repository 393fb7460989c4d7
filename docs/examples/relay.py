"""A relay for nodes that can't be dialled: python relay.py /ip4/0.0.0.0/tcp/4001"""

import sys

import trio
from libp2p import new_host
from libp2p.relay.circuit_v2.protocol import CircuitV2Protocol
from libp2p.relay.circuit_v2.resources import RelayLimits
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

UNLIMITED = RelayLimits(duration=0, data=1 << 60, max_circuit_conns=64, max_reservations=64)


async def main(listen: str) -> None:
    host = new_host()
    relay = CircuitV2Protocol(host, UNLIMITED, allow_hop=True)
    async with host.run([Multiaddr(listen)]), background_trio_service(relay):
        for address in host.get_addrs():
            print(f"behind a NAT, listen on {address}/p2p-circuit", flush=True)
        await trio.sleep_forever()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])
