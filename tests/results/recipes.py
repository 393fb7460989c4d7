"""How each result is made: commands, and how rows come from what they print."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
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


def _programs(name: str, *lines: str, code: Sequence[str], **settings: Any) -> Recipe:
    """Each of `lines` is a module and its arguments."""
    return Recipe(
        name=name,
        commands=[("-m", *line.split()) for line in lines],
        code=code,
        read=settings.pop("read", lines_of_rows),
        **settings,
    )


_HOST = ("protocol", "net", "router.py")
_TWO = "--only gossipsub-defaults gossipsub-bounded episub"
_AT_REST = f"--messages 60 --settle 600 --idle 60 --computing-clock {_TWO}"
_BURST = "tests.benchmarks.burst --hosts 20 --computing-clock"
_SLOW = "--uplink 20 50 --size"

_SHADOW = {
    ("go", "episub-go", "episub", "py", "episub,go"): ("subnet-blob-msg", "five-sources"),
    ("go", "episub-go"): (
        *(f"five-sources --seed {seed}" for seed in (2, 3, 4)),
        "one-source", "fifty-sources", "killed", "loss", "loss --set network.loss=0.05",
        "large", "large --set network.uplink=50.0", "large --set traffic.size=8000000",
        "large --set traffic.size=8000000 --set network.uplink=50.0",
        "behind", "behind --set traffic.large_every=0",
    ),
    ("episub,episub-go,episub-go",): ("five-sources --nodes 150",),
}  # fmt: skip
"""By kinds of nodes the scenarios that they run, each with its settings."""


def _shadow() -> Iterator[str]:
    for kinds, lines in _SHADOW.items():
        for line in lines:
            scenario, _, settings = line.partition(" ")
            path = f"interop/shadow/scenarios/{scenario}.toml"
            for kind in kinds:
                yield f"interop.shadow {path} --kinds {kind} {settings} --simulate --json"


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
        _programs("scale", "tests.benchmarks.sim_scale", code=("protocol", "sim")),
        _programs("hosts", f"tests.benchmarks --hosts 20 50 {_AT_REST}", code=_HOST),
        _programs("hosts-five", f"tests.benchmarks --hosts 20 --sources 5 {_AT_REST}", code=_HOST),
        _programs(
            "half-and-half", "tests.benchmarks --hosts 20 --sources 20 --rate 1 --warm-up 8 "
            "--settle 60 --idle 1 --computing-clock --messages 80 --only gossipsub-bounded "
            "half-and-half-bounded gossipsub-defaults half-and-half-defaults",
            code=(*_HOST, "fallback"),
        ),
        _programs("idle", "tests.benchmarks.idle --hosts 20 50", code=_HOST),
        _programs("overload", "tests.benchmarks.overload --hosts 20 --quota 0.5 0.25 --only "
                  "gossipsub-bounded episub", code=_HOST),
        _programs("burst", f"{_BURST} --messages 500 {_TWO}", f"{_BURST} --messages 10000",
                  code=_HOST),
        _programs("three-sites", "tests.benchmarks.three_sites", code=_HOST),
        _programs("fuzz", "tests.security.fuzz --frames 10000000",
                  "tests.security.piece_fuzz --frames 1000000",
                  code=("pubsub", "wire", "net", "protocol"), alone=True),
        _programs(
            "slow-links",
            f"tests.benchmarks.slow_links --hosts 20 {_SLOW} 1000000 --routers pieces gossipsub",
            f"tests.benchmarks.slow_links --hosts 20 {_SLOW} 8000000 --routers pieces",
            f"tests.benchmarks.slow_links --hosts 12 {_SLOW} 1000000 --routers node",
            code=_HOST, alone=True,
        ),
        _programs("shadow", *_shadow(), code=_HOST, read=shadow_rows, alone=True),
        _programs("sds-bytes", "tests.benchmarks.sds_bytes --seeds 1 2 3 4",
                  code=("sds/protocol",)),
        _programs("sds-catchup", "tests.benchmarks.sds_catchup --size 224",
                  "tests.benchmarks.sds_catchup --hosts",
                  "tests.benchmarks.sds_catchup --snapshot --messages 1000000", code=("sds",)),
        _programs("sds-attacks", "tests.benchmarks.sds_attacks", code=("sds",)),
        _programs("sds-kills", "tests.benchmarks.sds_kills --kills 10000", code=("sds",)),
        _programs("sds-vs-js", "tests.benchmarks.sds_vs_js", code=("sds",), alone=True),
        _programs("pipeline", "tests.benchmarks.pipeline --engine sail --events 1000000",
                  "tests.benchmarks.pipeline --engine spark --events 1000000 10000000",
                  code=("pipeline",), alone=True),
        _programs("stream", "tests.benchmarks.stream --rate 10000 --seconds 300",
                  code=("pipeline",), alone=True),
    )
}  # fmt: skip
"""In the order of the page."""
