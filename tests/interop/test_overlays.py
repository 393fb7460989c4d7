"""An overlay of the Go implementation alone, as `make test` has it."""

from __future__ import annotations

import pytest

from interop.harness.lab import Lab
from interop.harness.overlays import LEAST_LINKS, cost, overlay, symmetric

TOPIC = "overlay"


@pytest.mark.peers("episub-go")
async def test_ten_go_nodes_deliver_everything(lab: Lab) -> None:
    nodes, traffic = await overlay(lab, ["episub-go"] * 10, TOPIC)
    assert await cost(nodes, traffic, 2) < 2  # A flood over seven links has 7.
    dead, alive = nodes[4:6], nodes[:4] + nodes[6:]
    for node in dead:
        await node.kill()
        traffic.expected.pop(node)
    for author in alive:
        await traffic.publish(author, alive, [100] * 5)
    await symmetric(alive, TOPIC, LEAST_LINKS)
    assert await alive[0].end() == 0
    await symmetric(alive[1:], TOPIC, LEAST_LINKS)
    traffic.check()
