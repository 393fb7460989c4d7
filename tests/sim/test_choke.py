"""gossipsub with CHOKE and UNCHOKE, the other proposal that is called Episub."""

from __future__ import annotations

from typing import Any

import pytest

from episub_router.sim.records import Records
from episub_router.sim.routers.gossipsub_choke import ChokingGossipsubNode
from episub_router.sim.routers.params import GossipsubParams
from episub_router.sim.routers.settings import GossipsubConfig
from tests.sim.simulated import scenario_of, simulated

PR_413 = {"router.params.choke_interval": 5}
PR_681 = {"router.params.choke_after": 0.02, "router.params.unchoke_after": 0.01}


def ran(settings: dict[str, Any]) -> tuple[list[ChokingGossipsubNode], Records]:
    changed = {"network.nodes": 60, "traffic.messages": 100, "traffic.start": 10.0, **settings}
    simulation = simulated(scenario_of("choke", changed, "gossipsub v1.1"))
    return list(simulation.network.nodes.values()), simulation.records


def copies(records: Records) -> float:
    late = records.messages[60:]
    return sum(record.payloads for record in late) / (59 * len(late))


@pytest.mark.sim
@pytest.mark.parametrize("settings", [PR_413, PR_681], ids=["413", "681"])
def test_choked_peers_push_no_more(settings: dict[str, Any]) -> None:
    nodes, records = ran(settings)
    _, pushed_by_all = ran({})
    assert copies(records) < 0.75 * copies(pushed_by_all)
    assert all(all(at >= 0 for at in record.delivered) for record in records.messages)
    least = 1 if settings is PR_681 else GossipsubParams().d_non_choke
    by_id = {node.id: node for node in nodes}
    for node in nodes:
        assert node.choked.keys() <= node.mesh.keys()
        assert len(node.mesh) - len(node.choked) >= min(least, len(node.mesh))
        for peer in node.choked:
            assert node.id in by_id[peer].choked_by


def test_only_one_of_the_two_can_be_chosen() -> None:
    with pytest.raises(ValueError, match="two proposals"):
        GossipsubParams(choke_interval=20, choke_after=0.2)
    with pytest.raises(ValueError, match="scoring"):
        GossipsubConfig(scoring=True, params={"choke_after": 0.2})
