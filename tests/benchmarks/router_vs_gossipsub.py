"""EpisubRouter against py-libp2p's GossipSub: the same hosts and messages, in turn, in one run.

    python -m tests.benchmarks --hosts 20 50 [--json]

Each measurement has a process of its own, so that none pays for what another left behind.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from statistics import median
from typing import Any

from tests.benchmarks.contenders import CONTENDERS
from tests.benchmarks.measuring import Load, measure

_RATES = {20: 5.0, 50: 1.5}
"""Messages per second at which no router here saturates a core; else hosts x rate = 75."""

_COLUMNS = {
    "copies": ("payloads_per_delivery", "{:.2f}"),
    "frames": ("frames_per_delivery", "{:.2f}"),
    "bytes": ("bytes_per_delivery", "{:.0f}"),
    "CPU ms": ("cpu_ms_per_delivery", "{:.2f}"),
    "net CPU ms": ("net_cpu_ms_per_delivery", "{:.2f}"),
    "p50 ms": ("latency_p50_ms", "{:.0f}"),
    "p99 ms": ("latency_p99_ms", "{:.0f}"),
    "delivered": ("delivery_ratio", "{:.2%}"),
    "idle CPU": ("idle_cpu_share", "{:.1%}"),
    "load": ("load_average", "{:.1f}"),
}
_DEFAULTS, _BOUNDED, _EPISUB = "gossipsub-defaults", "gossipsub-bounded", "episub"


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parse(argv)
    results = []
    for muxer in arguments.muxer:
        for hosts in arguments.hosts:
            load = Load(
                hosts=hosts,
                messages=arguments.messages,
                warm_up=arguments.warm_up,
                rate=arguments.rate or _RATES.get(hosts, 75 / hosts),
                size=arguments.size,
                sources=arguments.sources,
                settle=arguments.settle,
                idle=arguments.idle,
                muxer=muxer,
                seed=arguments.seed,
                computing_clock=arguments.computing_clock,
            )
            for turn in range(arguments.repeat):
                for name in arguments.only:
                    print(f"{name}, {hosts} hosts, {muxer} ({turn + 1})", file=sys.stderr)
                    counted = _in_own_process(name, load)
                    results.append({"contender": name, **asdict(load), **counted})
    document = {
        "command": "python -m tests.benchmarks " + shlex.join(argv or sys.argv[1:]),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, libp2p {version('libp2p')}",
        "contenders": {name: CONTENDERS[name].description for name in arguments.only},
        "results": results,
    }
    text = json.dumps(document, indent=2) + "\n"
    report = _report(document)
    print(text if arguments.json else report, end="")
    return 0


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    add = parser.add_argument
    add("--hosts", type=int, nargs="+", default=[20, 50])
    add("--messages", type=int, default=100, help="messages that count (default: 100)")
    add("--warm-up", type=int, default=20, help="messages before those (default: 20)")
    add("--rate", type=float, help="messages per second (default: 5 at 20 hosts, 1.5 at 50)")
    add("--size", type=int, default=256, help="bytes of a message (default: 256)")
    add("--sources", type=int, default=1, help="hosts that publish, in turn (default: 1)")
    add("--settle", type=float, default=20.0, help="seconds before the warm-up (default: 20)")
    add("--idle", type=float, default=15.0, help="seconds without messages (default: 15)")
    add("--muxer", nargs="+", choices=["YAMUX", "MPLEX"], default=["YAMUX"])
    add("--only", nargs="+", choices=list(CONTENDERS), default=list(CONTENDERS))
    add("--repeat", type=int, default=1, help="runs of each; the report gives medians")
    add("--seed", type=int, default=1)
    add(
        "--computing-clock",
        action="store_true",
        help="let time pass as the hosts' process computes, and skip where it waits: "
        "for machines that have other work",
    )
    add("--json", action="store_true", help="print JSON instead of Markdown")
    return parser.parse_args(argv)


def _in_own_process(name: str, load: Load) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1, _quiet) as pool:
        return pool.apply(measure, (name, load))


def _quiet() -> None:
    """py-libp2p warns of every stream that a closing connection takes with it."""
    logging.getLogger("libp2p").addHandler(logging.NullHandler())


def _report(document: dict[str, Any]) -> str:
    lines = [
        "# EpisubRouter and GossipSub, side by side",
        "",
        f"Made by `{document['command']}`.",
        f"Machine: {document['machine']}.",
        "",
        "Real py-libp2p hosts in one process over TCP and Noise on loopback, with Ed25519 keys and",
        "strict signing; py-libp2p's own `Pubsub`, or where a router's line says so Episub's. They",
        "count frames and bytes as they are sent, payloads as they come. GossipSub speaks",
        "/meshsub/1.1.0 over a random graph in which each host has about 10 neighbours.",
        "All figures are per delivery (a message at a host that isn't its source): *copies* are",
        "payloads received, 1 being the least; *frames* and *bytes* are all that Pubsub sent,",
        "control messages included; *CPU* is the process's time from the first message after the",
        "warm-up to the last delivery, background work included; *net CPU* is without what the",
        "hosts take when idle. *Idle CPU* is that: the share of a core that all hosts together",
        "take without messages. *Load* is the machine's load average, over 1 where other processes",
        "ran as well. *Mesh* has the neighbours of a host in the topic (least, mean, most),",
        "*links* the connections of all hosts, with those that the routers dialled.",
        "",
    ]
    if any(result["computing_clock"] for result in document["results"]):
        lines += [
            "Time is the process's own: it passes as the hosts compute and jumps to the next timer",
            "when none has anything to do. So latencies are those of a machine without other work.",
            "",
        ]
    lines += [f"- **{name}**: {text}." for name, text in document["contenders"].items()]
    groups: dict[tuple[str, int], dict[str, list[dict[str, Any]]]] = {}
    for result in document["results"]:
        group = groups.setdefault((result["muxer"], result["hosts"]), {})
        group.setdefault(result["contender"], []).append(result)
    for (muxer, hosts), group in groups.items():
        first = next(iter(group.values()))[0]
        lines += [
            "",
            f"## {hosts} hosts over {muxer.lower()}",
            "",
            f"{first['messages']} messages of {first['size']} bytes, {first['rate']:g} per second, "
            f"{first['sources']} source(s), after {first['settle']:g} s to settle and "
            f"{first['warm_up']} messages to warm up; {first['idle']:g} s idle. "
            f"Medians of {max(map(len, group.values()))} run(s).",
            "",
            "| | " + " | ".join(_COLUMNS) + " | mesh | links |",
            "|---|" + "--:|" * (len(_COLUMNS) + 2),
        ]
        lines += [_row(name, runs) for name, runs in group.items()]
        lines += ["", *_ratios(group)]
    return "\n".join(lines) + "\n"


def _row(name: str, runs: list[dict[str, Any]]) -> str:
    failed = [run["error"] for run in runs if "error" in run]
    if failed:
        return f"| {name} | {failed[0]} |" + " |" * (len(_COLUMNS) + 1)
    cells = [form.format(_value(runs, key)) for key, form in _COLUMNS.values()]
    mesh = runs[0]["mesh"]
    links = round(median(run["connections"] for run in runs))
    cells += [f"{mesh['min']:g}-{mesh['mean']:.1f}-{mesh['max']:g}", str(links)]
    return f"| {name} | " + " | ".join(cells) + " |"


def _value(runs: list[dict[str, Any]], key: str) -> float:
    return median(max(run[key]) if isinstance(run[key], list) else run[key] for run in runs)


def _ratios(group: dict[str, list[dict[str, Any]]]) -> list[str]:
    """CPU per delivery against GossipSub's."""
    cpu = {
        name: _value(runs, "cpu_ms_per_delivery")
        for name, runs in group.items()
        if not any("error" in run for run in runs)
    }
    return [
        f"CPU of {name}: {cpu[name] / cpu[_DEFAULTS]:.2f} of GossipSub's defaults, "
        f"{cpu[name] / cpu[_BOUNDED]:.2f} of its bounded configuration.  "
        for name in cpu
        if name.startswith(_EPISUB) and _DEFAULTS in cpu and _BOUNDED in cpu
    ]


if __name__ == "__main__":
    sys.exit(main())
