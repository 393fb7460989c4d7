"""How each result is made: commands, and how rows come from what they print."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from tests.results.files import Row

SIMULATE = ("-m", "episub_router", "sim", "run")


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """One result: `commands` are arguments of Python, each of which prints JSON."""

    name: str
    commands: Sequence[Sequence[str]]
    code: Sequence[str]
    """Parts of the package on which it depends; where one changes, the result is older."""
    read: Callable[[str], Iterator[Row]]
    simulated: bool = False
    """Whether it takes --seeds, --processes and --nodes, and rows have a variant."""
    seeds: int | None = None
    """So many seeds at most."""
    alone: bool = False
    """Whether it has to be named: it takes hours, gigabytes or programs that must be installed."""


# From the simulator's summaries.

_PHASE = {
    "messages": "messages",
    "reliability": "reliability",
    "payloads_per_delivery": "payloads",
    "control_messages_per_delivery": "control_messages",
    "control_bytes_per_delivery": "control_bytes",
    "rmr_first": "rmr_first",
    "rmr_last": "rmr_last",
    "ldh": "ldh",
}
_OVERLAY = {
    "nodes": "live",
    "degree_mean": "degree",
    "at_target": "at_target",
    "near_target": "near_target",
    "symmetry": "symmetry",
    "clustering": "clustering",
    "average_shortest_path": "path",
    "components": "components",
    "near_proximity_ratio": "near_proximity",
    "source_eccentricity": "eccentricity",
}
_HOSTILE = {
    "honest_links_mean": "honest_links",
    "hostile_share_of_links": "hostile_share",
    "eclipsed": "eclipsed",
}
_FAULT = {"frozen_reach": "frozen_reach", "repaired_after": "repaired_s"}


def simulated_rows(text: str) -> Iterator[Row]:
    """A row for each variant and phase of `episub sim run --json`: means over the seeds."""
    from episub_router.sim.results.published import COUNTERS, PUBLISHED, counters
    from episub_router.sim.results.report import mean_of

    document = json.loads(text)
    by_variant: dict[str, list[Mapping[str, Any]]] = {}
    for run in document["runs"]:
        by_variant.setdefault(run["variant"], []).append(run["summary"])
    for variant, summaries in by_variant.items():
        mean = mean_of(summaries)
        for number, phase in enumerate(mean["phases"]):
            latency = phase.get("latency", {})
            yield {
                "scenario": mean["scenario"],
                "variant": variant,
                "phase": phase["name"],
                "router": mean["router"],
                "nodes": mean["nodes"],
                **_taken(phase, _PHASE),
                **{f"{name}_ms": 1000 * latency[name] for name in ("p50", "p99") if latency},
                "most_of_share": phase.get("sent_of_share", {}).get("max"),
                **_taken(phase.get("overlay", {}), _OVERLAY),
                **_taken(phase.get("hostile", {}), _HOSTILE),
                **_taken(mean["faults"][0] if len(mean["faults"]) == 1 else {}, _FAULT),
                "missing": sum(phase["missing"].values()),
                "unexplained": 0 if number else mean["unexplained"],
            }
        if mean["scenario"] in PUBLISHED:
            here, there = counters(mean), PUBLISHED[mean["scenario"]]
            yield {
                "scenario": mean["scenario"],
                "phase": "counters",
                "nodes": mean["nodes"],
                **{
                    name: here[name] / wanted if wanted else None
                    for name, wanted in zip(COUNTERS, there, strict=True)
                },
            }


def _taken(found: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {short: found[name] for name, short in names.items() if name in found}


# From the benchmarks.


def lines_of_rows(text: str) -> Iterator[Row]:
    """A row for each line of JSON."""
    return (json.loads(line) for line in text.splitlines() if line.startswith("{"))


def compared_routers(text: str) -> Iterator[Row]:
    """The medians of `python -m tests.benchmarks`, a row for each router and size."""
    runs: dict[tuple[str, int, int], list[dict[str, Any]]] = {}
    for run in json.loads(text)["results"]:
        runs.setdefault((run["contender"], run["hosts"], run["sources"]), []).append(run)
    names = {
        "payloads": "payloads_per_delivery",
        "bytes": "bytes_per_delivery",
        "cpu_ms": "cpu_ms_per_delivery",
        "p50_ms": "latency_p50_ms",
        "p99_ms": "latency_p99_ms",
        "delivered": "delivery_ratio",
        "idle_cpu": "idle_cpu_share",
    }
    for (router, hosts, sources), of in runs.items():
        complete = [run for run in of if "error" not in run]
        if complete:
            middle = {short: median(run[name] for run in complete) for short, name in names.items()}
            yield {"router": router, "hosts": hosts, "sources": sources, **middle}


def shadow_rows(text: str) -> Iterator[Row]:
    """The rows of `python -m interop.shadow --json`, and the simulator's beside them."""
    for line in text.splitlines():
        document = json.loads(line)
        for index, row in enumerate(document["rows"]):
            more = {**document["traffic"], **document["cost"]} if not index else {}
            yield _shadow_row(document, " + ".join(document["kinds"]), {**row, **more})
        for row in document["simulated"]:
            yield _shadow_row(document, row["of"], {**row, "of": document["rows"][0]["of"]})


def _shadow_row(document: Mapping[str, Any], kind: str, row: Mapping[str, Any]) -> Row:
    names = (
        "of", "messages", "deliveries", "due", "p50", "p99", "to_99", "duplicates", "bytes",
        "of_payload",
    )  # fmt: skip
    taken = {name: row[name] for name in names if row.get(name) is not None}
    seed = document["seed"]
    scenario = f"{document['name']}, seed {seed}" if seed != 1 else document["name"]
    return {"scenario": scenario, "hosts": document["hosts"], "kind": kind, **taken}


def _simulation(
    name: str, *scenarios: str, arguments: Sequence[str] = (), **settings: Any
) -> Recipe:
    return Recipe(
        name=name,
        commands=[(*SIMULATE, scenario, *arguments) for scenario in scenarios or (name,)],
        code=("protocol", *(f"sim/scenarios/{each}.toml" for each in scenarios or (name,))),
        read=simulated_rows,
        simulated=True,
        **settings,
    )


def _benchmark(
    name: str, module: str, *arguments: str, code: Sequence[str], **settings: Any
) -> Recipe:
    return Recipe(
        name=name,
        commands=[("-m", f"tests.benchmarks{module and '.'}{module}", *arguments)],
        code=code,
        read=settings.pop("read", lines_of_rows),
        **settings,
    )


_HOST = ("protocol", "net", "router.py")
_TWO = ("--only", "gossipsub-defaults", "gossipsub-bounded", "episub")
_AT_REST = ("--messages", "60", "--settle", "600", "--idle", "60", "--computing-clock", *_TWO)

_GO = ("go", "episub-go")
_SHADOW: tuple[tuple[tuple[str, ...], *tuple[tuple[str, ...], ...]], ...] = (
    (
        (*_GO, "episub", "py", "episub,go"),
        ("subnet-blob-msg",), ("five-sources",),
    ),
    (
        _GO,
        *(("five-sources", "--seed", seed) for seed in ("2", "3", "4")),
        ("one-source",), ("fifty-sources",), ("killed",),
        ("loss",), ("loss", "--set", "network.loss=0.05"),
        ("large",), ("large", "--set", "network.uplink=50.0"),
        ("large", "--set", "traffic.size=8000000"),
        ("large", "--set", "traffic.size=8000000", "--set", "network.uplink=50.0"),
        ("behind",), ("behind", "--set", "traffic.large_every=0"),
    ),
    (("episub,episub-go,episub-go",), ("five-sources", "--nodes", "150")),
)  # fmt: skip
"""Kinds of nodes, and the scenarios that they run."""

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        _simulation("headline-one", "headline", arguments=("--variant", "one source")),
        _simulation("headline-five", "headline", arguments=("--variant", "five sources")),
        _simulation("headline-fifty", "headline", arguments=("--variant", "fifty sources")),
        _simulation("new-sources", arguments=("--variant", "five in a silent topic")),
        _simulation("chat"),
        _simulation("same-moment"),
        _simulation("bursts"),
        _simulation("churn-trees"),
        _simulation("crash"),
        _simulation("lossy-trees"),
        _simulation("overlays", "join-storm", "partition-heal", "nat", "churn"),
        _simulation("sites", arguments=("--nodes", "400")),
        _simulation("proximity"),
        _simulation("simsub", *(f"simsub-{number}" for number in range(1, 7))),
        _simulation("hyparview", "hyparview-overlay", "plumtree-redundancy", seeds=1),
        _simulation("hyparview-failures", seeds=1),
        _simulation("choke", arguments=("--nodes", "300"), seeds=2),
        _simulation("hostile", arguments=("--nodes", "300", "--set", "traffic.sources=5")),
        _simulation("large", arguments=("--variant", "episub-", "--variant", "gossipsub-",
                                        "--variant", "fragments-")),
        Recipe(
            name="sizes",
            commands=[
                (*SIMULATE, "scale", "--nodes", str(nodes), "--messages", "20")
                for nodes in (100, 1_000, 10_000)
            ],
            code=("protocol", "sim/scenarios/scale.toml"),
            read=simulated_rows,
            simulated=True,
            seeds=1,
        ),
        _simulation("scale-100k", seeds=1, alone=True),
        Recipe(
            name="scale",
            commands=[("-m", "tests.benchmarks.sim_scale")],
            code=("protocol", "sim"),
            read=lines_of_rows,
        ),
        _benchmark("hosts", "", "--hosts", "20", "50", *_AT_REST, code=_HOST,
                   read=compared_routers),
        _benchmark("hosts-five", "", "--hosts", "20", "--sources", "5", *_AT_REST, code=_HOST,
                   read=compared_routers),
        _benchmark(
            "half-and-half", "", "--hosts", "20", "--sources", "20", "--rate", "2", "--warm-up",
            "8", "--settle", "60", "--idle", "1", "--computing-clock", "--messages", "80", "--only",
            "gossipsub-bounded", "half-and-half-bounded", "gossipsub-defaults",
            "half-and-half-defaults", code=(*_HOST, "fallback"), read=compared_routers,
        ),
        _benchmark("idle", "idle", "--hosts", "20", "50", code=_HOST),
        _benchmark("overload", "overload", "--hosts", "20", "--quota", "0.5", "0.25", "--only",
                   "gossipsub-bounded", "episub", code=_HOST),
        Recipe(
            name="burst",
            commands=[
                ("-m", "tests.benchmarks.burst", "--hosts", "20", "--computing-clock", *given)
                for given in (("--messages", "500", *_TWO), ("--messages", "10000"))
            ],
            code=_HOST,
            read=lines_of_rows,
        ),
        _benchmark("three-sites", "three_sites", code=_HOST),
        Recipe(
            name="fuzz",
            commands=[
                ("-m", "tests.security.fuzz", "--frames", "10000000"),
                ("-m", "tests.security.piece_fuzz", "--frames", "1000000"),
            ],
            code=("pubsub", "wire", "net", "protocol"),
            read=lines_of_rows,
            alone=True,
        ),
        Recipe(
            name="slow-links",
            commands=[
                ("-m", "tests.benchmarks.slow_links", "--hosts", hosts, "--uplink", "20", "50",
                 "--size", size, "--routers", *routers)
                for hosts, size, routers in (
                    ("20", "1000000", ("pieces", "gossipsub")), ("20", "8000000", ("pieces",)),
                    ("12", "1000000", ("node",)),
                )
            ],
            code=_HOST,
            read=lines_of_rows,
            alone=True,
        ),
        Recipe(
            name="shadow",
            commands=[
                ("-m", "interop.shadow", f"interop/shadow/scenarios/{scenario}.toml", "--kinds",
                 kinds, *settings, "--simulate", "--json")
                for of, *scenarios in _SHADOW
                for scenario, *settings in scenarios
                for kinds in of
            ],
            code=_HOST,
            read=shadow_rows,
            alone=True,
        ),
        _benchmark("sds-bytes", "sds_bytes", "--seeds", "1", "2", "3", "4", code=("sds/protocol",)),
        Recipe(
            name="sds-catchup",
            commands=[
                ("-m", "tests.benchmarks.sds_catchup", *given)
                for given in (("--size", "224"), ("--hosts",),
                              ("--snapshot", "--messages", "1000000"))
            ],
            code=("sds",),
            read=lines_of_rows,
        ),
        _benchmark("sds-attacks", "sds_attacks", code=("sds",)),
        _benchmark("sds-kills", "sds_kills", "--kills", "10000", code=("sds",)),
        _benchmark("sds-vs-js", "sds_vs_js", code=("sds",), alone=True),
        Recipe(
            name="pipeline",
            commands=[
                ("-m", "tests.benchmarks.pipeline", "--engine", engine, "--events", *sizes)
                for engine, *sizes in (("sail", "1000000"), ("spark", "1000000", "10000000"))
            ],
            code=("pipeline",),
            read=lines_of_rows,
            alone=True,
        ),
        _benchmark("stream", "stream", "--rate", "10000", "--seconds", "300", code=("pipeline",),
                   alone=True),
    )
}  # fmt: skip
"""In the order of the page."""
