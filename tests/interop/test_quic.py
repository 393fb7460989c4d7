"""Each stock peer that has QUIC with an Episub node over QUIC alone, from either side."""

from __future__ import annotations

import pytest

from interop.harness.lab import Lab
from interop.harness.links import mesh_link
from interop.harness.traffic import exchange, sizes
from tests.interop.cells import each

TOPIC = "quic"
MESSAGES = 200
LISTEN = "--listen=/ip4/127.0.0.1/udp/0/quic-v1"


@pytest.mark.parametrize(
    "kind",
    each("episub", "py", "js", "rust", "go"),
)
@pytest.mark.parametrize("dialler", ["episub-dials", "other-dials"])
async def test_messages_cross_quic(lab: Lab, kind: str, dialler: str) -> None:
    other = await lab.start(kind, LISTEN, topics=[TOPIC])
    episub = await lab.start("episub", LISTEN, topics=[TOPIC])
    if dialler == "episub-dials":
        await mesh_link(episub, other, TOPIC)
    else:
        await mesh_link(other, episub, TOPIC)
    await exchange(TOPIC, [other, episub], sizes(MESSAGES))
    assert await other.end() == 0
    assert await episub.end() == 0
