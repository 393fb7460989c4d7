"""Hosts that change from one network to another; the testbed's move.toml has real processes."""

from __future__ import annotations

import sys

import pytest
from multiaddr import Multiaddr

from episub_router import EpisubRouter, ResilientPubsub
from episub_router.net.connections import moved
from interop.testbed.lab import sandbox
from tests import children
from tests.docs.snippets import ROOT
from tests.hosts import PATIENCE, connect, eventually, running_nodes

pytestmark = pytest.mark.hosts

TWO_ADDRESSES = [Multiaddr(f"/ip4/127.0.0.{last}/tcp/0") for last in (1, 2)]


@pytest.mark.parametrize(("crossing", "left"), [(moved.CROSSING, 2), (-1.0, 1)])
async def test_a_peer_at_another_address_loses_its_older_connection(
    crossing: float, left: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(moved, "CROSSING", crossing)
    async with running_nodes(
        2, router=EpisubRouter, pubsub_class=ResilientPubsub, listen=TWO_ADDRESSES
    ) as (one, two):
        await connect(one, two)
        network = one.host.get_network()
        [first] = network.get_connections(two.id)
        at = [moved._ends(first)[1][0] in str(address) for address in two.info.addrs]
        second = await network.dial_addr(two.info.addrs[at.index(False)], two.id)
        await eventually(lambda: len(network.get_connections(two.id)) == left)
        assert not second.is_closed
        assert first.is_closed == (left == 1)


_LOSES_ITS_ADDRESS = """
import subprocess, trio
from interop.testbed.lab import sandbox
sandbox.enter()
from multiaddr import Multiaddr
from episub_router import EpisubRouter
from episub_router.net.connections.moved import _ends
from tests.hosts import eventually, running_nodes

def ip(*words):
    subprocess.run(["ip", *words], check=True)

async def main():
    listen = [Multiaddr(f"/ip4/{host}/tcp/0") for host in ("10.9.9.1", "127.0.0.1")]
    async with running_nodes(2, router=EpisubRouter, listen=listen) as (one, two):
        network = one.host.get_network()
        for address in two.info.addrs:
            await network.dial_addr(address, two.id)
        ip("addr", "del", "10.9.9.1/32", "dev", "lo")
        with trio.fail_after(5.0):  # the kernel would take 8 s
            await eventually(lambda: len(network.get_connections(two.id)) == 1)
        [left] = network.get_connections(two.id)
        assert (_ends(left)[0][0], left.is_closed) == ("127.0.0.1", False)

ip("link", "set", "lo", "up")
ip("addr", "add", "10.9.9.1/32", "dev", "lo")
trio.run(main)
"""


@pytest.mark.skipif(sandbox.problem(blocks=False) is not None, reason="no namespaces here")
def test_a_host_that_loses_its_address_closes_what_came_from_it() -> None:
    command = [sys.executable, "-c", _LOSES_ITS_ADDRESS]
    done = children.run(command, cwd=ROOT, capture_output=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr.decode()
