"""What `episub demo` prints: the figures, and the path of the last message."""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Collection, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from episub_router.cli.demo.recording import Trace
from episub_router.cli.demo.run import DemoOutcome
from episub_router.cli.demo.summary import WINDOW

_TREE_LINES = 32
"""Lines for the tree, about; beyond that, branches are folded."""


def print_report(outcome: DemoOutcome, found: Mapping[str, Any]) -> None:
    """Print the figures `found` and the tree to standard output."""
    console = Console(highlight=False)
    config = outcome.config
    console.print(
        f"\n[bold]{config.hosts} hosts[/] over TCP, Noise and Yamux, joined through host 0.\n"
        f"{_count(config.messages, 'message')} of {_count(config.size, 'byte')} from "
        f"{_count(config.sources, 'source')}, seed {config.seed}.\n"
    )
    console.print(_figures(outcome, found))
    for problem in _problems(found):
        console.print(Text(problem, style="bold red"))
    last = outcome.traces[-1]
    console.print(f"\nThe path of message {len(outcome.traces)}, with the time of each arrival:\n")
    console.print(broadcast_tree(last, outcome.killed))


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
        label.append(f"  {_ms(1000 * (trace.arrivals[host] - trace.published))}", style="dim")
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


def _figures(outcome: DemoOutcome, found: Mapping[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column()
    style = "green" if found["complete"] else "red"
    share = found["delivered"] / found["expected"]
    window = min(WINDOW, len(outcome.traces))
    table.add_row(
        "Delivered",
        f"[{style}]{found['delivered']} of {found['expected']}[/] ({_percent(share)}): each "
        "message at each host but its source"
        + (", and at the crashed ones those that they got before" if outcome.killed else ""),
    )
    if outcome.killed:
        victims = ", ".join(map(str, outcome.killed))
        table.add_row(
            "Crashed",
            f"{_count(len(outcome.killed), 'host')} after message "
            f"{outcome.config.killed_after}: {victims}",
        )
    twice, hops = found["duplicates_per_delivery"], found["hops"]
    table.add_row(
        "Duplicates",
        f"{twice['first_ten']:.2f} per delivery in the first {window}, "
        f"{twice['last_ten']:.2f} in the last {window} messages",
    )
    table.add_row("Hops", f"{hops['mean']:.1f} on average, at most {hops['max']:g}")
    latency = ", ".join(
        f"{_ms(took)} ({name})" for name, took in found["application_latency_ms"].items()
    )
    table.add_row("Latency to the application", latency)
    for name in ("active", "passive"):
        view = found[f"{name}_view"]
        peers = f"{view['mean']:.1f} peers on average, {view['min']:g} to {view['max']:g}"
        table.add_row(f"{name.title()} view", peers)
    table.add_row(
        "Time", f"{outcome.joining:.1f} s to join, {outcome.broadcasting:.1f} s to broadcast"
    )
    return table


def _problems(found: Mapping[str, Any]) -> list[str]:
    problems = []
    if found["missing"]:
        hosts = sorted({host for absent in found["missing"].values() for host in absent})
        names = ", ".join(map(str, hosts))
        count = _count(len(found["missing"]), "message")
        problems.append(f"{count} missed a live host (hosts {names})")
    if found["repeated"]:
        problems.append(f"{_count(found['repeated'], 'message')} delivered twice")
    if found["errors"]:
        problems.append(f"{_count(found['errors'], 'error')} caught in the routers")
    return problems + [f"host {host} stopped: {why}" for host, why in found["failures"].items()]


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _percent(share: float) -> str:
    """Rounded down: only all is 100 %."""
    return f"{math.floor(share * 1000) / 10:g} %"


def _ms(milliseconds: float | None) -> str:
    if milliseconds is None:
        return "nan ms"
    return f"{milliseconds:.1f} ms" if milliseconds < 10 else f"{milliseconds:.0f} ms"
