"""Large messages over real hosts with slow uplinks: `python -m tests.benchmarks.slow_links`.

A process for each host, in a network namespace of its own; all are joined by a bridge, and each
uplink is shaped by a `tbf` queue. Every router gets the same links, sizes and messages; `node` is
`episub node`, which finds its neighbours itself and is given lines. Needs root, or user namespaces,
and the tools `ip` and `tc`. Prints a line of JSON for each router and uplink.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import trio
from libp2p import new_host
from libp2p.crypto.ed25519 import create_new_key_pair
from libp2p.peer.peerinfo import info_from_p2p_addr
from libp2p.pubsub.pubsub import Pubsub
from libp2p.tools.anyio_service import background_trio_service
from multiaddr import Multiaddr

from episub_router import BroadcastParams, EpisubParams, EpisubRouter, ResilientPubsub
from interop.testbed.lab import sandbox
from interop.testbed.lab.network import Network, address
from tests.benchmarks.contenders import random_graph
from tests.hosts import bounded_gossipsub

TOPIC = "large"
_PORT = 4001
_SETTLE = 8.0
"""Seconds after the last subscription: meshes and overlays are there."""
_LOOK = 0.005
"""Seconds between two looks at what hosts say."""
_PIPE = 2**20
"""Bytes that wait for such a look: a line of a node has the whole message."""
_GIVE_UP = 120.0
"""Seconds that a message may take."""


def _router(kind: str) -> Any:
    if kind == "gossipsub":
        return bounded_gossipsub()
    if kind == "pieces":
        return EpisubRouter()
    return EpisubRouter(EpisubParams(broadcast=BroadcastParams(piece_threshold=0)))


# A host's process: lines of JSON in and out.


def _say(**fields: Any) -> None:
    print(json.dumps(fields), flush=True)


async def _member(number: int, kind: str, largest: int) -> None:
    host = new_host(key_pair=create_new_key_pair(number.to_bytes(32)))
    pubsub_class = Pubsub if kind == "gossipsub" else ResilientPubsub
    room = max(2**20, 2 * largest)
    pubsub = pubsub_class(host, _router(kind), max_inbound_rpc_size=room)
    listen = Multiaddr(f"/ip4/{address(number)}/tcp/{_PORT}")
    async with (
        host.run([listen]),
        background_trio_service(pubsub),
        background_trio_service(pubsub.router),
        trio.open_nursery() as nursery,
    ):
        await pubsub.wait_until_ready()
        subscription = await pubsub.subscribe(TOPIC)
        _say(ready=f"{listen}/p2p/{host.get_id()}")

        async def read() -> None:
            while True:
                message = await subscription.get()
                _say(got=int(message.data[:8]), at=time.monotonic())

        nursery.start_soon(read)
        async for line in trio.wrap_file(sys.stdin):
            command = json.loads(line)
            if "dial" in command:
                for target in command["dial"]:
                    await host.connect(info_from_p2p_addr(Multiaddr(target)))
            else:
                data = b"%8d" % command["publish"] + os.urandom(command["size"] - 8)
                _say(published=command["publish"], at=time.monotonic())
                nursery.start_soon(pubsub.publish, TOPIC, data)


# The runner


class _Member:
    """A host's process, and what it said."""

    def __init__(self, network: Network, number: int, command: list[str]) -> None:
        self.said: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [sys.executable, "-m", *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=network.enter(number),
            env={**os.environ, "PYTHONHASHSEED": "0"},
            pipesize=_PIPE,
        )
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        self._rest = b""

    def _write(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def dial(self, target: str) -> None:
        self._write(json.dumps({"dial": [target]}).encode())

    def publish(self, number: int, size: int) -> None:
        self._write(json.dumps({"publish": number, "size": size}).encode())

    def look(self) -> None:
        assert self.process.stdout is not None
        chunk = self.process.stdout.read()
        if chunk:
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self.said += [self._read(json.loads(line)) for line in lines if line.startswith(b"{")]

    def _read(self, line: dict[str, Any]) -> dict[str, Any]:
        return line

    def said_of(self, key: str) -> Iterator[dict[str, Any]]:
        return (said for said in self.said if key in said)

    def usage(self) -> tuple[int, float, int]:
        """Bytes over its uplink, seconds of CPU time, and the most KiB of memory."""
        process = f"/proc/{self.process.pid}"
        with open(f"{process}/net/dev") as file:
            (line,) = [line for line in file if line.strip().startswith("eth0:")]
        with open(f"{process}/stat") as file:
            ticks = file.read().rsplit(")", 1)[1].split()[11:13]
        with open(f"{process}/status") as file:
            (most,) = [line.split()[1] for line in file if line.startswith("VmHWM:")]
        cpu = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
        return int(line.split(":")[1].split()[8]), cpu, int(most)


class _Node(_Member):
    """`episub node --json`; what it says counts from when it is read."""

    def dial(self, target: str) -> None:
        """It finds its neighbours through host 0."""

    def publish(self, number: int, size: int) -> None:
        self.said.append({"published": number, "at": time.monotonic()})
        self._write(b"%8d" % number + os.urandom(size // 2 - 4).hex().encode())

    def _read(self, line: dict[str, Any]) -> dict[str, Any]:
        if line["event"] == "listening":
            return {"ready": line["addresses"][0]}
        if line["event"] == "delivered":
            return {"got": int(line["text"][:8]), "at": time.monotonic()}
        return {}


class _Hosts:
    def __init__(self, network: Network, count: int, kind: str, largest: int) -> None:
        self.members: list[_Member] = []
        for number in range(count):
            if kind == "node":
                command = ["episub_router", "node", "--json", "--stay", "--topic", TOPIC]
                command += ["--listen", f"/ip4/{address(number)}/tcp/{_PORT}"]
                if number:
                    command += ["--bootstrap", next(self.members[0].said_of("ready"))["ready"]]
                self.members.append(_Node(network, number, command))
                assert number or self.wait("ready", 1, 60.0)
            else:
                command = ["tests.benchmarks.slow_links", "--member", str(number)]
                command += ["--routers", kind, "--size", str(largest)]
                self.members.append(_Member(network, number, command))

    def wait(self, key: str, each: int, seconds: float) -> bool:
        """Until each host has said `key` so many times; host 0 gets no copy of its messages where
        it is a node."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for member in self.members:
                member.look()
            asked = self.members[1:] if key == "got" else self.members
            if all(sum(1 for _ in m.said_of(key)) >= each for m in asked):
                return True
            time.sleep(_LOOK)
        return False

    def usage(self) -> tuple[int, float, int]:
        """Bytes and CPU seconds of all hosts so far, and the most memory."""
        sent, cpu, memory = zip(*(member.usage() for member in self.members), strict=True)
        return sum(sent), sum(cpu), max(memory)

    def end(self) -> None:
        for member in self.members:
            member.process.kill()
            member.process.wait()


def measure(
    network: Network, kind: str, hosts: int, size: int, messages: int
) -> dict[str, float | None]:
    """Publish `messages` of `size` bytes at host 0, one after the other: seconds until all have the
    first, and half or all the others; what that cost, of all hosts for each delivery; the most MiB
    of one process."""
    group = _Hosts(network, hosts, kind, size)
    try:
        assert group.wait("ready", 1, 240.0), "a host didn't start"
        ready = [next(member.said_of("ready"))["ready"] for member in group.members]
        for a, b in random_graph(hosts, 1):
            group.members[a].dial(ready[b])
        time.sleep(_SETTLE)
        took: list[list[float]] = []
        missed = 0
        sent, cpu, _ = group.usage()
        for number in range(messages):
            group.members[0].publish(number, size)
            group.wait("got", number + 1, _GIVE_UP)
            (published,) = (
                s["at"] for s in group.members[0].said_of("published") if s["published"] == number
            )
            others = group.members[1:]
            got = [s["at"] for m in others for s in m.said_of("got") if s["got"] == number]
            took.append(sorted(at - published for at in got))
            missed += hosts - 1 - len(got)
            time.sleep(1.0)
        sent_after, cpu_after, memory = group.usage()
        steady = [second for times in took[1:] for second in times]
        deliveries = messages * (hosts - 1)
        return {
            "first_s": took[0][-1] if took[0] else None,
            "p50_s": median(steady) if steady else None,
            "all_s": max(steady, default=None),
            "copies": (sent_after - sent) / size / deliveries,
            "cpu_ms": (cpu_after - cpu) / deliveries * 1000,
            "mib": memory / 1024,
            "missed": missed,
        }
    finally:
        group.end()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=12)
    parser.add_argument("--size", type=int, default=1_000_000, help="bytes of a message")
    parser.add_argument("--uplink", type=float, nargs="+", default=[20, 50], help="Mbit/s")
    parser.add_argument("--messages", type=int, default=4, help="the first one makes the trees")
    parser.add_argument("--routers", nargs="+", default=["pieces", "whole", "gossipsub"])
    parser.add_argument("--member", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.member is not None:
        trio.run(_member, options.member, options.routers[0], options.size)
        return
    reason = sandbox.problem(blocks=False)
    if reason is not None:
        print(f"no network of our own: {reason}", file=sys.stderr)
        sys.exit(77)
    sandbox.enter()
    network = Network(options.hosts)
    size, hosts = options.size, options.hosts
    for uplink in options.uplink:
        for host in range(hosts):
            network.slow(host, uplink * 1000, down=False)
        copy = size * 8e-6 / uplink
        for kind in options.routers:
            row = {"router": kind, "hosts": hosts, "size": size, "uplink": uplink, "copy_s": copy}
            row |= measure(network, kind, hosts, size, options.messages)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
