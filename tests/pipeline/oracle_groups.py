"""Cuts by what peers are, in plain Python: a second time, as `oracle` has the other measures."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from tests.pipeline.oracle import Event, deliveries, nearest_rank, publishes, sessions

Trait = tuple[str, str]
"""Software, protocol or region, and which."""


def traits(events: Sequence[Event]) -> dict[str, set[Trait]]:
    """What the traces tell of each peer: one value of each trait, of several all in order."""
    said: dict[tuple[str, str], set[str]] = defaultdict(set)
    for event in events:
        if event["event"] == "header":
            detail = json.loads(event["detail"])
            software = [detail[name] for name in ("software", "router") if name in detail]
            said[event["peer"], "software"].add(", ".join(software))
            said[event["peer"], "region"].add(detail.get("region", ""))
        elif event["event"] == "stream-up":
            said[event["remote"], "protocol"].add(event["kind"] or "")
        elif event["event"] == "node" and event["state"] == "start":
            said[event["peer"], "region"].add(event["kind"] or "")
    made: dict[str, set[Trait]] = defaultdict(set)
    for (peer, trait), values in said.items():
        if values - {""}:
            made[peer].add((trait, ", ".join(sorted(values - {""}))))
    return made


def groups(events: Sequence[Event], patience: int, deadline: int) -> dict[Trait, dict[str, Any]]:
    """Every column of the table `groups` but the key."""
    of_peer = traits(events)
    members: dict[Trait, list[tuple[str, Event | None]]] = defaultdict(list)
    for peer, got in _served(events, patience):
        for trait in of_peer[peer]:
            members[trait].append((peer, got))
    made = {}
    for trait, rows in members.items():
        came = [got for _, got in rows if got is not None]
        latencies = [got["latency"] for got in came]
        hops = [got["hops"] for got in came if got["hops"] is not None]
        made[trait] = {
            "peers": len({peer for peer, _ in rows}),
            "expected": len(rows),
            "missing": len(rows) - len(came),
            "late": sum(latency > deadline for latency in latencies),
            "latency_mean": sum(latencies) / len(latencies) if latencies else None,
            "latency_p50": nearest_rank(latencies, 0.50),
            "latency_p99": nearest_rank(latencies, 0.99),
            "hops_mean": sum(hops) / len(hops) if hops else None,
        }
    return made


def _served(events: Sequence[Event], patience: int) -> Iterator[tuple[str, Event | None]]:
    """(peer, what it got) for each message that a peer was to get of another, and could have."""
    got = deliveries(events)
    for message, publish in publishes(events).items():
        time = publish["time"]
        for session in sessions(events, patience):
            peer, until = session["peer"], session["until"]
            if session["topic"] != publish["topic"] or session["ready"] > time:
                continue
            if until is not None and until <= time:
                continue
            delivery = got.get((message, peer))
            is_origin = peer == publish["peer"] if delivery is None else delivery["origin"]
            stayed = until is None or until > time + patience
            if not is_origin and (delivery is not None or peer == publish["peer"] or stayed):
                yield peer, delivery
