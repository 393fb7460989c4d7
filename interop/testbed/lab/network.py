"""Hosts in network namespaces, joined by a bridge in a namespace of its own.

Packets are dropped on the bridge, by source and destination: nobody gets an error or a FIN, and
ARP goes on. Nothing of it can be seen from outside the runner's namespaces.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterable, Sequence

from interop.testbed.lab import linux

Pair = tuple[int, int]
"""Packets from the first host to the second."""

_TABLE = """
table bridge testbed {
  set blocked { type ipv4_addr . ipv4_addr; }
  chain forward {
    type filter hook forward priority 0;
    ip saddr . ip daddr @blocked drop
  }
}
"""
_BURST = "16kb"
_LATENCY = "400ms"
"""How long a packet waits at a slow link before it is dropped: a home router's buffer."""
_TOOL_TIMEOUT = 60.0


class NetworkError(Exception):
    """A tool refused."""


class Network:
    """The hosts' namespaces, 0 to `hosts` - 1. To be made by process 1 of a sandbox, in its main
    thread; at the end of that process everything is gone."""

    def __init__(self, hosts: int) -> None:
        self._blocked: dict[Pair, int] = {}
        """How many faults block a pair."""
        home = _namespace()
        self._hub = _new_namespace(home)
        self._hosts = [_new_namespace(home) for _ in range(hosts)]
        os.close(home)
        lines = ["link add br0 type bridge", "link set br0 up"]
        for host, fd in enumerate(self._hosts):
            there = f"/proc/{os.getpid()}/fd/{fd}"
            lines += [
                f"link add v{host} type veth peer name eth0 netns {there}",
                f"link set v{host} master br0 up",
            ]
        self._batch(self._hub, lines)
        for host, fd in enumerate(self._hosts):
            self._batch(
                fd,
                ["link set lo up", "link set eth0 up", f"addr add {address(host)}/16 dev eth0"],
            )
        self._has_table = False

    def enter(self, host: int) -> Callable[[], None]:
        """What a new process calls to be on `host`."""
        fd = self._hosts[host]

        def enter() -> None:
            linux.setns(fd, linux.CLONE_NEWNET)
            linux.unshare(linux.CLONE_NEWUTS)
            with open("/proc/sys/kernel/hostname", "w") as file:
                file.write(f"node{host}")

        return enter

    def block(self, pairs: Iterable[Pair]) -> None:
        """Drop what goes from the first to the second of each pair; to be undone as often."""
        new = []
        for pair in pairs:
            self._blocked[pair] = self._blocked.get(pair, 0) + 1
            if self._blocked[pair] == 1:
                new.append(pair)
        self._change("add", new)

    def unblock(self, pairs: Iterable[Pair]) -> None:
        """Undo one `block` of each pair."""
        gone = []
        for pair in pairs:
            self._blocked[pair] -= 1
            if not self._blocked[pair]:
                del self._blocked[pair]
                gone.append(pair)
        self._change("delete", gone)

    def slow(self, host: int, kilobits: float, *, down: bool = True) -> None:
        """Let the host's link carry so many kbit/s each way, or `down` at full speed."""
        ends = [(self._hosts[host], "eth0"), (self._hub, f"v{host}")]
        for fd, device in ends if down else ends[:1]:
            rate = ["rate", f"{kilobits:g}kbit", "burst", _BURST, "latency", _LATENCY]
            self._run(fd, ["tc", "qdisc", "replace", "dev", device, "root", "tbf", *rate])

    def full_speed(self, host: int) -> None:
        """Undo `slow`."""
        for fd, device in ((self._hub, f"v{host}"), (self._hosts[host], "eth0")):
            self._run(fd, ["tc", "qdisc", "del", "dev", device, "root"])

    def move(self, host: int, *, away: bool) -> None:
        """Give the host another address in place of the one that it has, or its first one again."""
        old, new = address(host, away=not away), address(host, away=away)
        self._batch(
            self._hosts[host],
            [f"addr del {old}/16 dev eth0", f"addr add {new}/16 dev eth0"],
        )

    def _change(self, verb: str, pairs: Sequence[Pair]) -> None:
        if pairs:
            if not self._has_table:
                self._run(self._hub, ["nft", "-f", "-"], _TABLE)
                self._has_table = True
            elements = ", ".join(f"{address(a)} . {address(b)}" for a, b in pairs)
            text = f"{verb} element bridge testbed blocked {{ {elements} }}\n"
            self._run(self._hub, ["nft", "-f", "-"], text)

    def _batch(self, fd: int, lines: Iterable[str]) -> None:
        self._run(fd, ["ip", "-batch", "-"], "\n".join(lines) + "\n")

    def _run(self, fd: int, command: Sequence[str], text: str = "") -> None:
        def enter() -> None:
            linux.setns(fd, linux.CLONE_NEWNET)

        done = subprocess.run(
            command,
            input=text,
            text=True,
            capture_output=True,
            preexec_fn=enter,
            timeout=_TOOL_TIMEOUT,
            check=False,
        )
        if done.returncode:
            raise NetworkError(f"{' '.join(command)}: {done.stderr.strip()}")


def address(host: int, *, away: bool = False) -> str:
    """The IPv4 address of a host in the testbed's network, or the one that it moves to."""
    return f"10.77.{host // 250 + 128 * away}.{host % 250 + 1}"


def _namespace() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _new_namespace(home: int) -> int:
    """A descriptor that keeps a new network namespace."""
    linux.unshare(linux.CLONE_NEWNET)
    made = _namespace()
    linux.setns(home, linux.CLONE_NEWNET)
    return made
