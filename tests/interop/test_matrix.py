"""Each stock peer, in each gossipsub version that it speaks, with one Episub node."""

from __future__ import annotations

import pytest

from interop.harness.kinds import KINDS
from interop.harness.lab import Lab
from interop.harness.links import mesh_link
from interop.harness.traffic import exchange, sizes

TOPIC = "matrix"


def cells() -> list[object]:
    """Each kind of stock peer with each of its versions."""
    return [
        pytest.param(kind, version, marks=pytest.mark.peers(kind), id=f"{kind}-{version}")
        for kind in ("py", "js", "rust", "go")
        for version in KINDS[kind].speaks
    ]


@pytest.mark.parametrize(("kind", "version"), cells())
async def test_a_stock_peer_and_an_episub_node_exchange(
    lab: Lab, kind: str, version: str, pytestconfig: pytest.Config
) -> None:
    # A run for docs/interop.md exchanges more than one beside all other tests: of each size, too.
    messages = 200 if pytestconfig.getoption("--interop-table") else 50
    only = KINDS[kind].only(version)
    stock = await lab.start(kind, *only, topics=[TOPIC])
    # Where the stock peer can't offer this version alone, the Episub node does.
    flags = [] if only else [f"--protocol=/meshsub/{version}"]
    episub = await lab.start("episub", *flags, topics=[TOPIC])
    await mesh_link(stock, episub, TOPIC)
    assert stock.protocol(episub) == episub.protocol(stock) == f"/meshsub/{version}"
    await exchange(TOPIC, [stock, episub], sizes(messages))
    assert await stock.end() == 0
    assert await episub.end() == 0
