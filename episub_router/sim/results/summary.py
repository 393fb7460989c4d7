"""From the records of a run to its figures, as plain data that JSON can hold."""

from __future__ import annotations

from collections.abc import Collection
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from episub_router.sim.hashing import generator
from episub_router.sim.metrics import dissemination, eclipse, overlay, shares
from episub_router.sim.metrics.accounting import Accountant, MissingReason, Verdict
from episub_router.sim.records import HOSTILE, NEVER_DELIVERED, MessageRecord
from episub_router.sim.routers.settings import EpisubConfig
from episub_router.sim.simulation import PhaseSnapshot, Simulation

PATH_SOURCES = 100
"""Nodes from which shortest paths are measured, where there are more."""

_LINK_CHANGES = ("GRAFT", "PRUNE", "graft", "prune")
_PAYLOAD = ("payload",)


def summarize(simulation: Simulation) -> dict[str, Any]:
    """All figures of a finished run. The same run gives the same figures, to the bit."""
    scenario, records = simulation.scenario, simulation.records
    patience = scenario.traffic.settle
    accountant = Accountant(
        records, simulation.script.cuts, simulation.islands, patience, simulation.cast.begins
    )
    messages = enumerate(records.messages)
    honest = [index for index, record in messages if record.source not in simulation.cast]
    verdicts = {index: accountant.settle(index) for index in honest}
    rows = {index: _message_row(records.messages[index], verdicts[index]) for index in honest}
    missing = _total_missing(verdicts.values())
    return {
        "scenario": scenario.name,
        "router": scenario.router.kind,
        "seed": simulation.seed,
        "nodes": scenario.network.nodes,
        "end": scenario.end,
        "events": simulation.loop.performed,
        "phases": _phases(simulation, rows, verdicts),
        "messages": {
            key: [row[key] for row in rows.values()]
            for key in ("published", "reliability", "rmr", "ldh", "mean_hops", "payloads")
        },
        "missing": missing,
        "unexplained": missing.get(MissingReason.UNEXPLAINED.value, 0),
        "newcomer_deliveries": sum(row["newcomers"] for row in rows.values()),
        "repeated_deliveries": records.repeated_deliveries,
        "faults": [
            _fault(simulation, index, list(rows.values()))
            for index in range(len(simulation.script.struck))
        ],
        "drops": dict(sorted(records.drops.items())),
        "traffic": {
            kind: {"sends": entry.sends, "bytes": entry.size}
            for kind, entry in sorted(records.traffic.items())
        },
    }


def _served(record: MessageRecord, verdict: Verdict) -> NDArray[np.bool_]:
    """The nodes whose deliveries are measured: expected ones, but for the source."""
    served = np.frombuffer(verdict.served, dtype=np.bool_).copy()
    if record.source >= 0:
        served[record.source] = False
    return served


def _latencies(record: MessageRecord, verdict: Verdict) -> NDArray[np.float64]:
    delivered: NDArray[np.float64] = np.frombuffer(record.delivered, dtype=np.float64)
    latencies: NDArray[np.float64] = delivered[_served(record, verdict)] - record.published
    return latencies


def _message_row(record: MessageRecord, verdict: Verdict) -> dict[str, Any]:
    served = _served(record, verdict)
    receivers = int((np.frombuffer(record.delivered, dtype=np.float64) != NEVER_DELIVERED).sum())
    hops = np.frombuffer(record.hops, dtype=np.int16)[served].tolist()
    parents = np.frombuffer(record.parent, dtype=np.int32)[served].tolist()
    return {
        "published": record.published,
        "reliability": dissemination.reliability(verdict.delivered, verdict.live),
        "receivers": receivers,
        "newcomers": receivers - verdict.delivered,
        "deliveries": len(hops),
        "payloads": record.payloads,
        "rmr": dissemination.rmr(record.payloads, receivers),
        "ldh": dissemination.last_delivery_hop(hops),
        "mean_hops": dissemination.mean_depth(hops),
        "fan_out": dissemination.fan_out(parents),
    }


def _total_missing(verdicts: Collection[Verdict]) -> dict[str, int]:
    totals = {
        reason.value: sum(verdict.missing.get(reason, 0) for verdict in verdicts)
        for reason in MissingReason
    }
    return {reason: count for reason, count in totals.items() if count}


def _phases(
    simulation: Simulation, rows: dict[int, dict[str, Any]], verdicts: dict[int, Verdict]
) -> list[dict[str, Any]]:
    scenario = simulation.scenario
    names = [phase.name for phase in scenario.measured]
    made = []
    # One snapshot was taken at the start of each phase and one at the end of the run.
    for name, (before, after) in zip(names, pairwise(simulation.snapshots), strict=True):
        last = after is simulation.snapshots[-1]
        chosen = [
            index
            for index, row in rows.items()
            if before.time <= row["published"] and (last or row["published"] < after.time)
        ]
        made.append(
            {
                "name": name,
                "start": before.time,
                "end": after.time,
                **_spread(simulation, rows, verdicts, chosen),
                **_traffic(before, after, [rows[i] for i in chosen]),
                **_shares(simulation, before, after, chosen),
                "missing": _total_missing([verdicts[i] for i in chosen]),
                "overlay": _overlay(simulation, after),
                **_hostile(simulation, before.time, after.time),
            }
        )
    return made


def _spread(
    simulation: Simulation,
    all_rows: dict[int, dict[str, Any]],
    verdicts: dict[int, Verdict],
    chosen: list[int],
) -> dict[str, Any]:
    if not chosen:
        return {"messages": 0}
    rows = [all_rows[index] for index in chosen]
    records = simulation.records.messages
    latencies = np.concatenate([_latencies(records[index], verdicts[index]) for index in chosen])
    deliveries = sum(row["deliveries"] for row in rows)
    payloads = sum(row["payloads"] for row in rows)
    count = len(rows)
    return {
        "messages": count,
        "reliability": sum(row["reliability"] for row in rows) / count,
        "worst_reliability": min(row["reliability"] for row in rows),
        "atomic": sum(row["reliability"] == 1.0 for row in rows) / count,
        "deliveries": deliveries,
        "payloads_per_delivery": payloads / deliveries if deliveries else 0.0,
        "duplicates_per_delivery": dissemination.duplicates_per_delivery(payloads, deliveries),
        "rmr": sum(row["rmr"] for row in rows) / count,
        "rmr_first": rows[0]["rmr"],
        "rmr_last": rows[-1]["rmr"],
        "ldh": sum(row["ldh"] for row in rows) / count,
        "ldh_max": max(row["ldh"] for row in rows),
        "mean_hops": sum(row["mean_hops"] for row in rows) / count,
        "fan_out_max": max(row["fan_out"]["max"] for row in rows),
        "leaves": sum(row["fan_out"]["leaves"] for row in rows) / count,
        "latency": dissemination.latency_summary(latencies),
        "latency_histogram_ms": dissemination.latency_histogram(latencies),
    }


def _traffic(
    before: PhaseSnapshot, after: PhaseSnapshot, rows: list[dict[str, Any]]
) -> dict[str, Any]:
    """Control traffic of the phase, upkeep of the overlay included."""
    sends = size = changes = 0
    kinds = {}
    for kind, (sent, sent_bytes) in sorted(after.traffic.items()):
        earlier = before.traffic.get(kind, (0, 0))
        kinds[kind] = {"sends": sent - earlier[0], "bytes": sent_bytes - earlier[1]}
        if kind not in (*_PAYLOAD, HOSTILE):
            size += sent_bytes - earlier[1]
        if kind not in (*_PAYLOAD, "GOSSIP", "publish", HOSTILE):
            sends += sent - earlier[0]
        if kind in _LINK_CHANGES:
            changes += sent - earlier[0]
    deliveries = sum(row["deliveries"] for row in rows)
    return {
        "control_messages_per_delivery": sends / deliveries if deliveries else 0.0,
        "control_bytes_per_delivery": size / deliveries if deliveries else 0.0,
        "flutter": changes / len(rows) if rows else 0.0,
        "traffic": kinds,
    }


def _shares(
    simulation: Simulation, before: PhaseSnapshot, after: PhaseSnapshot, chosen: list[int]
) -> dict[str, Any]:
    """How many times its share each host sent, upkeep of the overlay included, where hosts' uplinks
    differ and there were messages. Hosts that came, went or restarted meanwhile don't count."""
    network = simulation.network
    if not network.uplinks_differ or not chosen:
        return {}
    sent = {
        host: count - before.sent[host][1]
        for host, (came_up, count) in after.sent.items()
        if host in before.sent and before.sent[host][0] == came_up
    }
    messages = [simulation.records.messages[index] for index in chosen]
    rates = {host: network.uplink_of(host) for host in sent}
    sources = {message.source for message in messages}
    size = sum(message.size for message in messages)
    return {"sent_of_share": shares.figures(sent, rates, size, sources)} if sent else {}


def _hostile(simulation: Simulation, start: float, end: float) -> dict[str, Any]:
    """What the adversaries left of the honest nodes' links, where there are adversaries."""
    if not simulation.cast:
        return {}
    looks = [look for look in simulation.watch.looks if start <= look.time < end]
    return {"hostile": eclipse.figures(looks)}


def _overlay(simulation: Simulation, snapshot: PhaseSnapshot) -> dict[str, Any]:
    matrix, ids = snapshot.overlay, snapshot.ids
    if not ids:
        return {"nodes": 0}
    out, into = overlay.degrees(matrix)
    rng = generator(simulation.seed, "metrics", round(snapshot.time * 1000))
    rows = rng.sample(range(len(ids)), min(PATH_SOURCES, len(ids)))
    hops = overlay.shortest_paths(matrix, rows)
    sizes = overlay.component_sizes(matrix)
    pairs = [(rng.choice(ids), rng.choice(ids)) for _ in range(2000)]
    figures = {
        "nodes": len(ids),
        "connections": snapshot.connections,
        "degree_mean": float(out.mean()),
        "degree_min": int(out.min()),
        "degree_max": int(out.max()),
        "degrees": np.bincount(out).tolist(),
        "symmetry": overlay.symmetry(matrix),
        "clustering": overlay.clustering(matrix),
        "average_shortest_path": overlay.average_shortest_path(hops),
        "components": len(sizes),
        "largest_component": sizes[0],
        "proximity_ratio": overlay.proximity_ratio(matrix, ids, simulation.network.delay, pairs),
    }
    router = simulation.scenario.router
    if isinstance(router, EpisubConfig):
        target = router.params.membership.active_size
        figures["at_target"] = float(((out == target) & (into == target)).mean())
        figures["near_target"] = float((abs(out - target) <= 1).mean())
        if snapshot.near.nnz:
            figures["near_proximity_ratio"] = overlay.proximity_ratio(
                snapshot.near, ids, simulation.network.delay, pairs
            )
    row_of = {node: row for row, node in enumerate(ids)}
    sources = [row_of[source] for source in simulation.sources if source in row_of]
    if sources:
        figures["source_eccentricity"] = overlay.eccentricity(
            overlay.shortest_paths(matrix, sources[:PATH_SOURCES])
        )
    return figures


def _fault(simulation: Simulation, index: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """What a fault took, what was left without repair, and how long repair took.

    Repaired is when messages reach again what they reached before the fault, or 99.9 %.
    """
    struck = simulation.script.struck[index]
    following = [other.at for other in simulation.script.struck[index + 1 :]]
    until = min(following, default=float("inf"))
    before = [row["reliability"] for row in rows if row["published"] < struck.at]
    target = min(0.999, sum(before) / len(before)) if before else 0.999
    seen = [row for row in rows if row["published"] < until]
    return {
        "kind": struck.kind,
        "at": struck.at,
        "nodes": struck.nodes,
        "frozen_reach": struck.frozen_reach,
        "repaired_after": dissemination.time_to_repair(
            struck.at,
            [row["published"] for row in seen],
            [row["reliability"] for row in seen],
            target,
        ),
    }
