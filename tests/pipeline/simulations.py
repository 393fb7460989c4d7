"""Small simulations that the tests share: every router, and what goes wrong."""

from __future__ import annotations

from episub_router.sim.adversaries.settings import CensorAttack
from episub_router.sim.network.settings import NetworkConfig
from episub_router.sim.routers.settings import (
    EpisubConfig,
    FloodsubConfig,
    GossipsubConfig,
    RouterConfig,
)
from episub_router.sim.runner import Job
from episub_router.sim.scenario.faults import ChurnFault, CrashFault, Fault, PartitionFault
from episub_router.sim.scenario.settings import JoinConfig, Scenario, TrafficConfig

NODES, MESSAGES = 24, 15

ROUTERS: dict[str, RouterConfig] = {
    "episub": EpisubConfig(),
    "gossipsub": GossipsubConfig(),
    "floodsub": FloodsubConfig(),
}
FAULTS: dict[str, tuple[Fault, ...]] = {
    "churn": (ChurnFault(at=12.0, until=22.0, rate=0.2, crash=0.5),),
    "crash": (CrashFault(at=16.0, share=0.3),),
    "lossy": (),
}


def simulation(router: str, fault: str) -> Job:
    made = Scenario(
        name=f"{router}-{fault}",
        network=NetworkConfig(nodes=NODES, loss=0.05 if fault == "lossy" else 0.0),
        router=ROUTERS[router],
        # Nodes come while messages are under way.
        join=JoinConfig(over=12.0),
        traffic=TrafficConfig(messages=MESSAGES, start=10.0, interval=1.0),
        faults=FAULTS[fault],
    )
    return Job("", made, 1)


def parted() -> Job:
    """Half of the nodes is cut off for 20 s."""
    made = Scenario(
        name="parted",
        network=NetworkConfig(nodes=NODES),
        router=EpisubConfig(),
        traffic=TrafficConfig(messages=40, start=20.0, interval=1.0),
        faults=(PartitionFault(at=30.0, seconds=20.0, share=0.5),),
    )
    return Job("", made, 1)


def hostile() -> Job:
    """A fifth of the nodes takes messages, and passes none on."""
    made = Scenario(
        name="hostile",
        network=NetworkConfig(nodes=NODES),
        router=EpisubConfig(),
        traffic=TrafficConfig(source="few", sources=2, messages=20, start=20.0, interval=1.0),
        adversaries=(CensorAttack(at=10.0),),
    )
    return Job("", made, 1)
