"""The figures of a run, and those of the simulator for the same scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from episub_router.cli.demo.summary import percentile
from episub_router.sim.routers.settings import EpisubConfig, GossipsubConfig
from episub_router.sim.runner import run
from episub_router.sim.scenario.settings import Phase
from interop.shadow.kinds import KINDS
from interop.shadow.reading import Outcome
from interop.shadow.scenario import Plan

Row = dict[str, Any]
"""`of` says what it is of; latencies are ms, None where there is nothing to measure."""

_IDONTWANT = 1024
"""Bytes from which on go sends IDONTWANT: its IDontWantMessageThreshold."""


def rows(plan: Plan, outcome: Outcome) -> list[Row]:
    """A row for each size of messages."""
    large = sorted({plan.publishings[number].large for number in plan.measured})
    return [_row(plan, outcome, [n for n in plan.measured if plan.publishings[n].large == is_large])
            for is_large in large]  # fmt: skip


def _row(plan: Plan, outcome: Outcome, numbers: Sequence[int]) -> Row:
    latencies, shortest, to_most = [], [], []
    due = copies = 0
    for number in numbers:
        message = plan.publishings[number]
        published = outcome.published.get(number, message.time)
        hosts = [h for h in range(plan.hosts) if plan.up(h, plan.scenario.end)]
        copies += sum(outcome.copies[number, host] for host in hosts)
        found = []
        for host in hosts:
            if host == message.host:
                continue
            due += 1
            shortest.append(plan.shortest(message, host))
            if (number, host) in outcome.first:
                found.append(outcome.first[number, host] - published)
        latencies += found
        if found:
            # Where a hundredth is less than one host, all of them.
            to_most.append(percentile(sorted(found), 0.99))
    size = plan.publishings[numbers[0]].size
    return {
        "of": f"{size:,} B",
        "messages": len(numbers),
        "due": due,
        "deliveries": len(latencies),
        "p50": _ms(latencies, 0.5),
        "p99": _ms(latencies, 0.99),
        "to_99": _ms(to_most, 0.5),
        "direct_p50": _ms(shortest, 0.5),
        "direct_p99": _ms(shortest, 0.99),
        "duplicates": round((copies - len(latencies)) / (plan.hosts * len(numbers)), 3),
    }


def traffic(plan: Plan, outcome: Outcome) -> Row:
    """Bytes of IP packets, with TCP's, Noise's and Yamux's share, while the measured messages were
    published, and until the end."""
    begin = int(plan.publishings[plan.nodes.skip].time)
    sent = [sum(size for second, size in host.items() if second >= begin) for host in outcome.sent]
    payload = sum(plan.publishings[number].size for number in plan.measured)
    live = sum(plan.up(host, plan.scenario.end) for host in range(plan.hosts))
    return {
        "bytes": sum(sent),
        "bytes_max": max(sent),
        "bytes_before": sum(sum(host.values()) for host in outcome.sent) - sum(sent),
        "of_payload": round(sum(sent) / (payload * (live - 1)), 3),
    }


def simulated(plan: Plan) -> list[Row]:
    """The simulator's, for each kind of router that the plan has."""
    models = dict.fromkeys(KINDS[kind].model for kind in plan.nodes.kinds)
    return [_simulated(plan, model) for model in models]


def _simulated(plan: Plan, model: str) -> Row:
    begin = plan.publishings[plan.nodes.skip].time
    scenario = replace(
        plan.scenario,
        router=_router(plan, model),
        traffic=replace(plan.scenario.traffic, authors=plan.piece_threshold > 0),
        phases=(Phase(name="before", start=0.0), Phase(name="measured", start=begin)),
    )
    phase = run(scenario, plan.seed).summary["phases"][-1]
    latency = phase["latency"]
    payload = sum(plan.publishings[number].size for number in plan.measured)
    total = sum(entry["bytes"] for entry in phase["traffic"].values())
    return {
        "of": f"simulator, {model}",
        "messages": phase["messages"],
        "due": phase["messages"] * (plan.hosts - 1),
        "deliveries": phase["deliveries"],
        "p50": round(latency["p50"] * 1000, 1),
        "p99": round(latency["p99"] * 1000, 1),
        "duplicates": round(
            phase["duplicates_per_delivery"] * phase["deliveries"]
            / (plan.hosts * phase["messages"]), 3,
        ),
        "bytes": total,
        "of_payload": round(total / (payload * (plan.hosts - 1)), 3),
    }  # fmt: skip


def _router(plan: Plan, model: str) -> EpisubConfig | GossipsubConfig:
    own = plan.scenario.router
    if model == "episub":
        return own if isinstance(own, EpisubConfig) else EpisubConfig()
    # As go's: it publishes to its mesh, and dials as many as the script has it dial.
    params = {"d_low": 5, "flood_publish": False, "idontwant": _IDONTWANT,
              "connect": plan.nodes.connections // 2}  # fmt: skip
    return GossipsubConfig(params=params)


def _ms(values: Sequence[float], share: float) -> float | None:
    return round(percentile(sorted(values), share) * 1000, 1) if values else None
