"""The stock peers among each other: what the matrix with Episub is to be compared with."""

from __future__ import annotations

import itertools

import pytest

from interop.harness.kinds import KINDS
from interop.harness.lab import Lab
from interop.harness.links import mesh_link
from interop.harness.traffic import exchange, sizes

TOPIC = "pair"


def pairs() -> list[object]:
    """Each two kinds, and each version that one can speak alone and the other has."""
    return [
        pytest.param(a, b, version, marks=pytest.mark.peers(a, b), id=f"{a}-{b}-{version}")
        for a, b in itertools.combinations(["py", "js", "rust", "go"], 2)
        for version in KINDS[a].speaks
        if version in KINDS[b].speaks and version in {*KINDS[a].selectable, *KINDS[b].selectable}
    ]


@pytest.mark.parametrize(("kind_a", "kind_b", "version"), pairs())
async def test_two_stock_peers_exchange(lab: Lab, kind_a: str, kind_b: str, version: str) -> None:
    a = await lab.start(kind_a, *KINDS[kind_a].only(version), topics=[TOPIC])
    b = await lab.start(kind_b, *KINDS[kind_b].only(version), topics=[TOPIC])
    await mesh_link(b, a, TOPIC)
    assert a.protocol(b) == b.protocol(a) == f"/meshsub/{version}"
    await exchange(TOPIC, [a, b], sizes(40))
    assert await a.end() == 0
    assert await b.end() == 0
