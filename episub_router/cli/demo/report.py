"""What `episub demo` prints: the figures, and the path of the last message."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Collection
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from episub_router.cli.demo.recording import Trace
from episub_router.cli.demo.run import DemoOutcome
from episub_router.cli.demo.summary import WINDOW, Spread, Summary

_TREE_LINES = 32
"""Lines for the tree, about; beyond that, branches are folded."""


def print_report(outcome: DemoOutcome, summary: Summary) -> None:
    """Print the figures and the tree to standard output."""
    console = Console(highlight=False)
    config = outcome.config
    console.print(
        f"\n[bold]{config.hosts} hosts[/] over TCP, Noise and Yamux, joined through host 0.\n"
        f"{_count(config.messages, 'message')} of {_count(config.size, 'byte')} from "
        f"{_count(config.sources, 'source')}, seed {config.seed}.\n"
    )
    console.print(_figures(outcome, summary))
    for problem in _problems(outcome, summary):
        console.print(Text(problem, style="bold red"))
    last = outcome.traces[-1]
    console.print(f"\nThe path of message {len(outcome.traces)}, with the time of each arrival:\n")
    console.print(broadcast_tree(last, outcome.killed))


def as_json(outcome: DemoOutcome, summary: Summary) -> dict[str, Any]:
    """The same as one JSON document; times in milliseconds, except where a key says seconds."""
    config = outcome.config
    last = outcome.traces[-1]
    return {
        "hosts": config.hosts,
        "messages": config.messages,
        "size": config.size,
        "sources": sorted({trace.source for trace in outcome.traces}),
        "seed": config.seed,
        "killed": list(outcome.killed),
        "complete": summary.complete,
        "delivered": summary.delivered,
        "expected": summary.expected,
        "repeated": summary.repeated,
        "duplicates_per_delivery": {
            "first_ten": round(summary.duplicates_first, 3),
            "last_ten": round(summary.duplicates_last, 3),
        },
        "hops": _spread(summary.hops),
        "application_latency_ms": {
            "p50": _milliseconds(summary.latency_p50),
            "p99": _milliseconds(summary.latency_p99),
        },
        "active_view": _spread(summary.active),
        "passive_view": _spread(summary.passive),
        "joining_seconds": round(outcome.joining, 3),
        "broadcasting_seconds": round(outcome.broadcasting, 3),
        "errors": outcome.errors,
        "failures": {str(host): repr(error) for host, error in outcome.failures.items()},
        "missing": {
            str(number): absent
            for number, trace in enumerate(outcome.traces, 1)
            if (absent := _absent(trace, outcome.live))
        },
        "last_path": {
            "source": last.source,
            "parents": {str(host): parent for host, parent in sorted(last.parents.items())},
            "arrivals_ms": {
                str(host): _milliseconds(at - last.published)
                for host, at in sorted(last.arrivals.items())
            },
        },
    }


def broadcast_tree(trace: Trace, crashed: Collection[int], max_lines: int = _TREE_LINES) -> Tree:
    """The tree along which a message went, drawn in about `max_lines` lines.

    A larger tree gets one line for all leaves of a parent, and is cut where it gets too long,
    each cut branch with the number of hosts in it.
    """
    children: defaultdict[int, list[int]] = defaultdict(list)
    for host, parent in sorted(trace.parents.items(), key=lambda link: _arrival(trace, link[0])):
        children[parent].append(host)
    gather = len(trace.parents) >= max_lines
    root = Tree(Text.assemble(f"host {trace.source}", (" source", "bold")), guide_style="dim")
    lines = 1
    branches = deque([(trace.source, root)])
    while branches:
        parent, branch = branches.popleft()
        leaves = [host for host in children[parent] if not children[host]]
        gathered = leaves if gather and len(leaves) > 1 else []
        inner = [host for host in children[parent] if host not in gathered]
        if lines + len(inner) + bool(gathered) > max_lines and parent != trace.source:
            assert isinstance(branch.label, Text)
            branch.label.append(f"  … {_size(parent, children)} more below", style="italic")
            continue
        lines += len(inner) + bool(gathered)
        branches.extend((host, branch.add(_label(host, trace, crashed))) for host in inner)
        if gathered:
            branch.add(Text("hosts " + ", ".join(map(str, gathered))))
    return root


def _label(host: int, trace: Trace, crashed: Collection[int]) -> Text:
    label = Text(f"host {host}")
    if host in trace.arrivals:
        label.append(f"  {_ms(trace.arrivals[host] - trace.published)}", style="dim")
    if host in crashed:
        label.append("  crashed", style="red")
    return label


def _arrival(trace: Trace, host: int) -> float:
    return trace.arrivals.get(host, math.inf)


def _size(host: int, children: dict[int, list[int]]) -> int:
    """How many hosts are below `host`."""
    below, count = deque(children[host]), 0
    while below:
        count += 1
        below.extend(children[below.popleft()])
    return count


def _figures(outcome: DemoOutcome, summary: Summary) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column()
    style = "green" if summary.complete else "red"
    share = summary.delivered / summary.expected
    window = min(WINDOW, len(outcome.traces))
    table.add_row(
        "Delivered",
        f"[{style}]{summary.delivered} of {summary.expected}[/] ({_percent(share)}): each message "
        f"at each host but its source"
        + (", and at the crashed ones those that they got before" if outcome.killed else ""),
    )
    if outcome.killed:
        victims = ", ".join(map(str, outcome.killed))
        table.add_row(
            "Crashed",
            f"{_count(len(outcome.killed), 'host')} after message "
            f"{outcome.config.killed_after}: {victims}",
        )
    table.add_row(
        "Duplicates",
        f"{summary.duplicates_first:.2f} per delivery in the first {window}, "
        f"{summary.duplicates_last:.2f} in the last {window} messages",
    )
    table.add_row("Hops", f"{summary.hops.mean:.1f} on average, at most {summary.hops.max:g}")
    latency = f"{_ms(summary.latency_p50)} (p50), {_ms(summary.latency_p99)} (p99)"
    table.add_row("Latency to the application", latency)
    table.add_row("Active view", _range(summary.active))
    table.add_row("Passive view", _range(summary.passive))
    table.add_row(
        "Time", f"{outcome.joining:.1f} s to join, {outcome.broadcasting:.1f} s to broadcast"
    )
    return table


def _problems(outcome: DemoOutcome, summary: Summary) -> list[str]:
    problems = []
    late = [trace for trace in outcome.traces if _absent(trace, outcome.live)]
    if late:
        hosts = sorted({host for trace in late for host in _absent(trace, outcome.live)})
        names = ", ".join(map(str, hosts))
        problems.append(f"{_count(len(late), 'message')} missed a live host (hosts {names})")
    if summary.repeated:
        problems.append(f"{_count(summary.repeated, 'message')} delivered twice")
    if outcome.errors:
        problems.append(f"{_count(outcome.errors, 'error')} caught in the routers")
    for host, error in outcome.failures.items():
        problems.append(f"host {host} stopped: {error!r}")
    return problems


def _absent(trace: Trace, live: Collection[int]) -> list[int]:
    return [host for host in live if host != trace.source and host not in trace.arrivals]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _percent(share: float) -> str:
    """Rounded down: only all is 100 %."""
    return f"{math.floor(share * 1000) / 10:g} %"


def _range(spread: Spread) -> str:
    return f"{spread.mean:.1f} peers on average, {spread.min:g} to {spread.max:g}"


def _ms(seconds: float) -> str:
    milliseconds = seconds * 1000
    return f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"


def _milliseconds(seconds: float) -> float | None:
    return None if math.isnan(seconds) else round(seconds * 1000, 3)


def _spread(spread: Spread) -> dict[str, float]:
    return {"min": spread.min, "mean": round(spread.mean, 3), "max": spread.max}
