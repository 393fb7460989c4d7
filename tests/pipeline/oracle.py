"""The measures of docs/metrics.md in plain Python, from a list of events (dicts with the columns of
`schemas.EVENT` that matter). Written to be read beside the formulas, not to be fast."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

Event = dict[str, Any]
SECOND = 1_000_000_000
SILENCE = 30 * SECOND


def publishes(events: Sequence[Event]) -> dict[str, Event]:
    """message -> its publishing: the publish event, else the first delivery."""
    found: dict[str, Event] = {}
    for kind in ("deliver", "publish"):
        for event in sorted(by_kind(events, kind), key=lambda e: (e["time"], e["peer"])):
            known = found.get(event["message"])
            if known is None or known["event"] != kind:
                found[event["message"]] = event
    return found


def by_kind(events: Iterable[Event], *kinds: str) -> list[Event]:
    return [event for event in events if event["event"] in kinds]


def deliveries(events: Sequence[Event]) -> dict[tuple[str, str], Event]:
    """(message, peer) -> its first receipt, with latency, parent, origin, hops."""
    published = publishes(events)
    first: dict[tuple[str, str], Event] = {}
    for event in sorted(by_kind(events, "deliver"), key=lambda e: (e["time"], e["offset"])):
        first.setdefault((event["message"], event["peer"]), dict(event))
    for (message, peer), delivery in first.items():
        source = published[message]["peer"]
        remote = delivery["remote"]
        delivery["origin"] = peer == source and remote in (None, peer)
        delivery["parent"] = None if delivery["origin"] or remote == peer else remote
        delivery["latency"] = delivery["time"] - published[message]["time"]
        if delivery["origin"]:
            delivery["hops"] = 0
    for message, peer in first:
        first[message, peer]["depth"] = depth(first, message, peer)
    for delivery in first.values():
        delivery["hops"] = delivery["depth"]
    return first


def depth(first: dict[tuple[str, str], Event], message: str, peer: str) -> int | None:
    """Traced hops, or one more than the parent's."""
    seen = {peer}
    links = 0
    while True:
        delivery = first.get((message, peer))
        if delivery is None:
            return None
        if delivery["hops"] is not None:
            return min(int(delivery["hops"]) + links, 2**31 - 1)
        peer = delivery["parent"]
        if peer is None or peer in seen:
            return None
        seen.add(peer)
        links += 1


def sessions(events: Sequence[Event], patience: int) -> list[dict[str, Any]]:
    """Subscriptions: topic, peer, since, until, ending, ready (when messages are expected). Where
    receipts are traced, a peer that is silent for the last SILENCE of the run has gone."""
    made: list[dict[str, Any]] = []
    open_ones: dict[tuple[str, str], dict[str, Any]] = {}
    for event in sorted(events, key=lambda e: (e["time"], e["offset"])):
        peer = event["peer"]
        if event["event"] == "join":
            key = (event["topic"], peer)
            if key not in open_ones:
                open_ones[key] = {
                    "topic": event["topic"], "peer": peer, "since": event["time"],
                    "until": None, "ending": None,
                }  # fmt: skip
                made.append(open_ones[key])
        ended = None
        if event["event"] == "node" and event["state"] in ("leave", "crash"):
            ended = [key for key in open_ones if key[1] == peer]
        elif event["event"] == "leave":
            ended = [key for key in open_ones if key == (event["topic"], peer)]
        for key in ended or ():
            session = open_ones.pop(key)
            session["until"] = event["time"]
            session["ending"] = "leave" if event["event"] == "leave" else event["state"]
    last: dict[str, int] = {}
    for event in events:
        last[event["peer"]] = max(last.get(event["peer"], 0), event["time"])
    end = max(last.values())
    for session in made if by_kind(events, "recv") else ():
        if session["until"] is None and last[session["peer"]] < end - SILENCE:
            session["until"], session["ending"] = last[session["peer"]], "silent"
    intervals = links(events)
    overlays = {link["topic"] for link in intervals if link["kind"] == "active"}
    for session in made:
        # Where there is no overlay, any peer with a stream can be reached.
        kinds = {(session["topic"], "active"), (session["topic"], "eager")}
        if session["topic"] not in overlays:
            kinds.add((None, "stream"))
        linked = [
            max(link["since"], session["since"])
            for link in intervals
            if link["peer"] == session["peer"]
            and (link["topic"], link["kind"]) in kinds
            and (link["until"] is None or session["since"] < link["until"])
            and (session["until"] is None or link["since"] < session["until"])
        ]
        session["ready"] = min([session["since"] + patience, *linked])
    return made


def links(events: Sequence[Event]) -> list[dict[str, Any]]:
    """Intervals of the links of each kind."""
    made: list[dict[str, Any]] = []
    now: dict[tuple[str, str | None, str, str], dict[str, Any]] = {}

    def turn(layer: str, event: Event, topic: str | None, remote: str, kind: str | None) -> None:
        key = (layer, topic, event["peer"], remote)
        old = now.get(key)
        if (old["kind"] if old else None) == kind:
            return
        if old:
            old["until"] = event["time"]
            del now[key]
        if kind:
            now[key] = {
                "topic": topic, "kind": kind, "peer": event["peer"], "remote": remote,
                "since": event["time"], "until": None,
            }  # fmt: skip
            made.append(now[key])

    for event in sorted(events, key=lambda e: (e["time"], e["offset"])):
        what, topic, remote = event["event"], event["topic"], event["remote"]
        if what == "graft":
            turn("tree", event, topic, remote, "eager")
        elif what == "prune":
            turn("tree", event, topic, remote, "lazy" if event["state"] == "lazy" else None)
        elif what == "neighbor":
            turn("active", event, topic, remote, "active" if event["state"] == "up" else None)
            if event["state"] != "up":
                turn("tree", event, topic, remote, None)
        elif what == "stream-up":
            turn("stream", event, topic, remote, "stream")
        elif what == "stream-down":
            turn("stream", event, topic, remote, None)
        elif what == "node" and event["state"] in ("leave", "crash"):
            for layer, other, peer, who in [key for key in now if key[2] == event["peer"]]:
                del peer
                turn(layer, event, other, who, None)
        elif what == "leave":
            for layer, other, peer, who in list(now):
                if peer == event["peer"] and other == topic:
                    turn(layer, event, other, who, None)
    return made


def settled(events: Sequence[Event]) -> int:
    """When the outcome is looked at: at the end, or at the last delivery where nodes went after."""
    delivered = max(event["time"] for event in by_kind(events, "deliver"))
    gone = [event["time"] for event in by_kind(events, "leave")]
    gone += [event["time"] for event in by_kind(events, "node") if event["state"] != "start"]
    late = bool(gone) and max(gone) > delivered
    return delivered if late else max(event["time"] for event in events)


def nearest_rank(values: Sequence[float], share: float, count: int | None = None) -> float | None:
    """The least value that at least this share of `count` doesn't exceed."""
    ordered = sorted(values)
    rank = max(1, math.ceil(share * (len(ordered) if count is None else count)))
    return ordered[rank - 1] if rank <= len(ordered) else None


def messages(events: Sequence[Event], patience: int) -> dict[str, dict[str, Any]]:
    """Every column of the table `messages`, by message."""
    published, got, there = publishes(events), deliveries(events), sessions(events, patience)
    sends = [
        part["messages"][0]
        for event in by_kind(events, "send")
        for part in event["parts"]
        if part["kind"] == "message"
    ]
    copies = Counter(event["message"] for event in by_kind(events, "duplicate"))
    made: dict[str, dict[str, Any]] = {}
    by_topic: dict[str, list[str]] = defaultdict(list)
    for message, publish in sorted(published.items(), key=lambda item: (item[1]["time"], item[0])):
        by_topic[publish["topic"]].append(message)
        time = publish["time"]
        all_got = {peer: d for (m, peer), d in got.items() if m == message}
        expected = [
            s for s in there
            if s["topic"] == publish["topic"]
            and s["ready"] <= time
            and (s["until"] is None or time < s["until"])
        ]  # fmt: skip
        there_too = {publish["peer"]: {"origin": True, "latency": 0, "hops": 0, "parent": None}}
        has: dict[str, Any] = there_too | all_got
        delivered = [s["peer"] for s in expected if s["peer"] in has]
        live = sum(
            s["peer"] in has or s["until"] is None or s["until"] > time + patience for s in expected
        )
        served = [has[peer] for peer in delivered if not has[peer]["origin"]]
        latencies = [d["latency"] for d in served]
        receivers = len(all_got) + (not any(d["origin"] for d in all_got.values()))
        came = sum(not d["origin"] for d in all_got.values())
        payloads = sends.count(message) if sends else came + copies[message]
        children = Counter(d["parent"] for d in served if d["parent"])
        hops = [d["hops"] for d in served if d["hops"] is not None]
        times = [has[peer]["latency"] for peer in delivered]
        edges = {tuple(sorted((d["peer"], d["parent"]))) for d in all_got.values() if d["parent"]}
        index = len(by_topic[publish["topic"]]) - 1
        stability = None
        if index:
            earlier = made[by_topic[publish["topic"]][index - 1]]["edges"]
            if edges | earlier:
                stability = len(edges & earlier) / len(edges | earlier)
        made[message] = {
            "index": index,
            "live": live,
            "delivered": len(delivered),
            "deliveries": len(served),
            "newcomers": receivers - len(delivered),
            "receivers": receivers,
            "reliability": len(delivered) / live if live else 1.0,
            "payloads": payloads,
            "duplicates": copies[message],
            "rmr": payloads / (receivers - 1) - 1 if receivers > 1 else 0.0,
            "ldh": max(hops, default=0),
            "mean_hops": sum(hops) / len(hops) if hops else None,
            "latency_mean": sum(latencies) / len(latencies) if latencies else None,
            "latency_p50": nearest_rank(latencies, 0.50),
            "latency_p90": nearest_rank(latencies, 0.90),
            "latency_p99": nearest_rank(latencies, 0.99),
            "latency_max": max(latencies, default=None),
            "t50": nearest_rank(times, 0.50, live),
            "t90": nearest_rank(times, 0.90, live),
            "t99": nearest_rank(times, 0.99, live),
            "t100": nearest_rank(times, 1.00, live),
            "negative_latencies": sum(latency < 0 for latency in latencies),
            "unknown_latencies": 0,
            "fan_out_max": max(children.values(), default=0),
            "leaves": max(0.0, (len(served) + 1 - len(children)) / (len(served) + 1))
            if served
            else None,
            "stability": stability,
            "edges": edges,
            "latencies": latencies,
            "published": time,
            "topic": publish["topic"],
        }
    return made


_SUMS = ("live", "delivered", "newcomers", "duplicates", "negative_latencies",
         "unknown_latencies")  # fmt: skip
_MEANS = ("reliability", "rmr", "ldh", "mean_hops", "leaves", "stability",
          "t50", "t90", "t99", "t100")  # fmt: skip


def spread(rows: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The figures of `spread` for the messages in `rows`."""
    rows = sorted(rows, key=lambda row: row["index"])
    latencies = [latency for row in rows for latency in row["latencies"]]
    deliveries, payloads = total(rows, "deliveries"), total(rows, "payloads")
    return {
        "messages": len(rows),
        "worst_reliability": min(row["reliability"] for row in rows),
        "atomicity": sum(row["reliability"] == 1.0 for row in rows) / len(rows),
        **{name: total(rows, name) for name in _SUMS},
        **{name: mean(rows, name) for name in _MEANS},
        "deliveries": deliveries,
        "payloads": payloads,
        "duplicates_per_delivery": (payloads - deliveries) / deliveries if deliveries else 0.0,
        "rmr_first": rows[0]["rmr"],
        "rmr_last": rows[-1]["rmr"],
        "ldh_max": max(row["ldh"] for row in rows),
        "fan_out_max": max(row["fan_out_max"] for row in rows),
        "latency_mean": sum(latencies) / len(latencies) if latencies else None,
        "latency_p50": nearest_rank(latencies, 0.50),
        "latency_p90": nearest_rank(latencies, 0.90),
        "latency_p99": nearest_rank(latencies, 0.99),
        "latency_min": min(latencies, default=None),
        "latency_max": max(latencies, default=None),
    }


def total(rows: Iterable[dict[str, Any]], name: str) -> int:
    return sum(row[name] for row in rows)


def mean(rows: Iterable[dict[str, Any]], name: str) -> float | None:
    """Of those that have it."""
    values = [row[name] for row in rows if row[name] is not None]
    return sum(values) / len(values) if values else None


def duplicate_causes(events: Sequence[Event]) -> Counter[str]:
    asked = {
        (event["peer"], event["remote"], message)
        for event in by_kind(events, "send")
        for part in event["parts"]
        if part["kind"] in ("iwant", "graft")
        for message in part["messages"] or ()
    }
    return Counter(
        "request" if (e["peer"], e["remote"], e["message"]) in asked else "push"
        for e in by_kind(events, "duplicate")
    )


def control(events: Sequence[Event]) -> dict[str, tuple[int, int]]:
    """kind -> (control messages sent, ids in them)."""
    sends: Counter[str] = Counter()
    ids: Counter[str] = Counter()
    for event in by_kind(events, "send"):
        for part in event["parts"]:
            if part["kind"] not in ("message", "subscribe", "unsubscribe"):
                sends[part["kind"]] += 1
                ids[part["kind"]] += len(part["messages"] or ())
    return {kind: (sends[kind], ids[kind]) for kind in sends}


def load(events: Sequence[Event]) -> dict[str, dict[str, int]]:
    """peer -> what it sent and received."""
    peers: dict[str, Counter[str]] = defaultdict(Counter)
    for event in by_kind(events, "send", "recv"):
        said = "sent" if event["event"] == "send" else "received"
        counter = peers[event["peer"]]
        counter[f"{said}_rpcs"] += 1
        counter[f"{said}_bytes"] += event["size"]
        for part in event["parts"]:
            if part["kind"] == "message":
                counter[f"{said}_messages"] += 1
            elif part["kind"] not in ("subscribe", "unsubscribe"):
                counter[f"{said}_control"] += 1
    for (_, peer), delivery in deliveries(events).items():
        peers[peer]["deliveries"] += 1
        if delivery["parent"]:
            peers[delivery["parent"]]["children"] += 1
    return {peer: dict(counter) for peer, counter in peers.items()}


def gini(values: Sequence[float]) -> float:
    """Half the mean difference of all pairs, over the mean."""
    if not sum(values):
        return 0.0
    count = len(values)
    differences = sum(abs(a - b) for a in values for b in values)
    return differences / (2 * count * sum(values))


def neighbours_at(
    events: Sequence[Event], kind: str, topic: str | None, time: int, patience: int
) -> dict[str, list[str]]:
    """The peers that are there, with those that it has links of `kind` to at `time`."""
    there = {
        s["peer"]: []
        for s in sessions(events, patience)
        if topic in (None, s["topic"])
        and s["since"] <= time
        and (s["until"] is None or s["until"] > time)
    }  # type: dict[str, list[str]]
    for link in links(events):
        if (
            link["kind"] == kind
            and link["topic"] == topic
            and link["since"] <= time
            and (link["until"] is None or link["until"] > time)
            and link["peer"] in there
            and link["remote"] in there
            and link["remote"] != link["peer"]
        ):
            there[link["peer"]].append(link["remote"])
    return there


def graph(neighbours: dict[str, list[str]]) -> dict[str, Any]:
    """Degrees, symmetry, clustering, components and mean shortest path."""
    undirected: dict[str, set[str]] = {peer: set() for peer in neighbours}
    for peer, others in neighbours.items():
        for other in others:
            undirected[peer].add(other)
            undirected[other].add(peer)
    links_ = [(a, b) for a, others in neighbours.items() for b in others]
    local = []
    for others in undirected.values():
        pairs = [(a, b) for a in others for b in others if a < b]
        closed = sum(b in undirected[a] for a, b in pairs)
        local.append(closed / len(pairs) if pairs else 0.0)
    distances: list[int] = []
    components: list[int] = []
    seen: set[str] = set()
    for peer in undirected:
        hops = {peer: 0}
        queue = [peer]
        for at in queue:
            for other in undirected[at]:
                if other not in hops:
                    hops[other] = hops[at] + 1
                    queue.append(other)
        distances += [hop for hop in hops.values() if hop]
        if peer not in seen:
            components.append(len(hops))
            seen |= set(hops)
    degrees = [len(others) for others in neighbours.values()]
    return {
        "nodes": len(neighbours),
        "links": len(links_),
        "degree_mean": sum(degrees) / len(degrees),
        "degree_min": min(degrees),
        "degree_max": max(degrees),
        "degrees": [degrees.count(degree) for degree in range(max(degrees) + 1)],
        "symmetry": sum((b, a) in set(links_) for a, b in links_) / len(links_) if links_ else 1.0,
        "clustering": sum(local) / len(local),
        "average_shortest_path": sum(distances) / len(distances) if distances else 0.0,
        "components": len(components),
        "largest_component": max(components),
    }


def losses(events: Sequence[Event]) -> Counter[tuple[str, str]]:
    counted: Counter[tuple[str, str]] = Counter()
    for event in by_kind(events, "reject", "drop", "discard"):
        counted[event["event"], event["reason"] or ""] += event["count"] or 1
    return counted


def sds_violations(events: Sequence[Event]) -> set[tuple[str, str, str]]:
    """(peer, message, dependency): delivered before what it depends on."""
    found: set[tuple[str, str, str]] = set()
    there: dict[str, set[str]] = defaultdict(set)
    given_up: dict[str, set[str]] = defaultdict(set)
    logged: set[tuple[str, str]] = set()
    for event in sorted(by_kind(events, "sds"), key=lambda e: (e["time"], e["offset"])):
        sds, peer = event["sds"], event["peer"]
        own = sds["action"] == "send" and sds["purpose"] == "content"
        if not own and (sds["action"] != "deliver" or sds["lamport"] is None):
            continue
        if (peer, sds["message"]) in logged:
            continue
        logged.add((peer, sds["message"]))
        given_up[peer] |= set(sds["lost"] or ())
        there[peer].add(sds["message"])
        if not own:
            for dependency in sds["history"] or ():
                if dependency not in there[peer] | given_up[peer]:
                    found.add((peer, sds["message"], dependency))
    return found
