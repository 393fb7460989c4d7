"""Results for people: tables for the terminal, and comparisons of two runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from rich import box
from rich.table import Table

Phase: TypeAlias = Mapping[str, Any]


def _milliseconds(name: str) -> Callable[[Phase], str]:
    def shown(phase: Phase) -> str:
        value = phase.get("latency", {}).get(name)
        return "-" if value is None else f"{1000 * value:,.0f}"

    return shown


def _number(digits: int, *path: str) -> Callable[[Phase], str]:
    def shown(phase: Phase) -> str:
        value: Any = phase
        for key in path:
            value = value.get(key) if isinstance(value, Mapping) else None
        return "-" if value is None else f"{value:,.{digits}f}"

    return shown


def _missing(phase: Phase) -> str:
    return ", ".join(f"{reason} {count:,}" for reason, count in phase["missing"].items()) or "none"


def _lost(phase: Phase) -> str:
    """Shown where there are adversaries: what a bar is for."""
    if "hostile" not in phase or "reliability" not in phase:
        return "-"
    return f"{100 * (1 - phase['reliability']):.3f}"


ROWS: dict[str, Callable[[Phase], str]] = {
    "messages": _number(0, "messages"),
    "reliability": _number(5, "reliability"),
    "lost, %": _lost,
    "worst message": _number(5, "worst_reliability"),
    "payloads per delivery": _number(3, "payloads_per_delivery"),
    "RMR of the first message": _number(3, "rmr_first"),
    "RMR of the last message": _number(3, "rmr_last"),
    "RMR, mean": _number(3, "rmr"),
    "LDH, mean": _number(1, "ldh"),
    "latency mean, ms": _milliseconds("mean"),
    "latency p50, ms": _milliseconds("p50"),
    "latency p90, ms": _milliseconds("p90"),
    "latency p99, ms": _milliseconds("p99"),
    "latency max, ms": _milliseconds("max"),
    "control messages per delivery": _number(2, "control_messages_per_delivery"),
    "control bytes per delivery": _number(0, "control_bytes_per_delivery"),
    "sent of its share, most": _number(2, "sent_of_share", "max"),
    "sent of its share, p99": _number(2, "sent_of_share", "p99"),
    "likewise, most of a relay": _number(2, "sent_of_share", "max_of_relays"),
    "uplink of that relay, Mbit/s": _number(0, "sent_of_share", "uplink_of_max_relay"),
    "flutter per message": _number(1, "flutter"),
    "live nodes": _number(0, "overlay", "nodes"),
    "degree, mean": _number(2, "overlay", "degree_mean"),
    "degree, most": _number(0, "overlay", "degree_max"),
    "at target degree": _number(4, "overlay", "at_target"),
    "within one of target": _number(4, "overlay", "near_target"),
    "symmetry": _number(5, "overlay", "symmetry"),
    "clustering": _number(5, "overlay", "clustering"),
    "average shortest path": _number(3, "overlay", "average_shortest_path"),
    "components": _number(0, "overlay", "components"),
    "proximity ratio": _number(3, "overlay", "proximity_ratio"),
    "proximity ratio, near links": _number(3, "overlay", "near_proximity_ratio"),
    "source's eccentricity": _number(0, "overlay", "source_eccentricity"),
    "honest links, mean": _number(2, "hostile", "honest_links_mean"),
    "honest links, fewest": _number(0, "hostile", "honest_links_fewest"),
    "honest links of victims": _number(0, "hostile", "victims_honest_links_fewest"),
    "hostile share of links": _number(3, "hostile", "hostile_share_of_links"),
    "likewise, over their fair share": _number(2, "hostile", "hostile_share_over_fair"),
    "eclipsed nodes": _number(1, "hostile", "eclipsed"),
    "eclipsed at the end": _number(1, "hostile", "eclipsed_at_end"),
    "eclipsed for a minute": _number(1, "hostile", "eclipsed_long"),
    "longest eclipse, s": _number(0, "hostile", "eclipsed_longest"),
    "missing": _missing,
}
"""What is shown of a phase, in order. The overlay is as it was when the phase ended."""


COLUMNS = {
    "reliability": ROWS["reliability"],
    "payloads/delivery": ROWS["payloads per delivery"],
    "p50, ms": ROWS["latency p50, ms"],
    "p99, ms": ROWS["latency p99, ms"],
    "control bytes/delivery": ROWS["control bytes per delivery"],
}
"""What is shown of a phase where there are several variants: as much as 80 columns hold."""


def titled(name: str, summary: Mapping[str, Any], seeds: int) -> str:
    """`name` with the size of what was run."""
    messages = len(summary["messages"]["published"])
    seeded = f", mean of {seeds} seeds" if seeds > 1 else ""
    return f"{name}: {summary['nodes']:,} nodes, {messages:,} messages{seeded}"


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))


def phases(summary: Mapping[str, Any], title: str) -> Table:
    """One column per phase."""
    columns = summary["phases"]
    table = _table(title)
    table.add_column("", no_wrap=True)
    for phase in columns:
        table.add_column(phase["name"], justify="right")
    for row, shown in ROWS.items():
        cells = [shown(phase) for phase in columns]
        if any(cell != "-" for cell in cells):
            table.add_row(row, *cells)
    table.add_section()
    for kind in dict.fromkeys(kind for phase in columns for kind in phase.get("traffic", ())):
        table.add_row(f"{kind}: sent, bytes/delivery", *(_sent(phase, kind) for phase in columns))
    return table


def _sent(phase: Phase, kind: str) -> str:
    """How many messages of `kind` were sent, and their bytes for each delivery."""
    sent = phase.get("traffic", {}).get(kind, {"sends": 0, "bytes": 0})
    deliveries = phase.get("deliveries")
    bytes_each = f", {sent['bytes'] / deliveries:,.0f}" if deliveries else ""
    return f"{sent['sends']:,.0f}{bytes_each}"


def variants(summaries: Mapping[str, Mapping[str, Any]], title: str) -> Table:
    """One row per phase of each run, below the name of the run's variant."""
    table = _table(title)
    table.add_column("")
    for column in COLUMNS:
        table.add_column(column.replace("/", "/\n"), justify="right", no_wrap=True)
    for name, summary in summaries.items():
        several = len(summary["phases"]) > 1
        if several:
            table.add_row(name)
        for phase in summary["phases"]:
            label = f"  {phase['name']}" if several else name
            table.add_row(label, *(shown(phase) for shown in COLUMNS.values()))
    return table


def notes(summary: Mapping[str, Any]) -> list[str]:
    """What the table has no place for: totals, faults, and unexplained losses."""
    sent = (f"{kind} {entry['sends']:,.0f}" for kind, entry in summary["traffic"].items())
    lines = [f"sent in all: {', '.join(sent)}"]
    for fault in summary["faults"]:
        line = f"{fault['kind']} of {fault['nodes']:,.0f} nodes at {fault['at']:g} s"
        if fault["frozen_reach"] is not None:
            line += f"; without repair a flood would have reached {fault['frozen_reach']:.3f}"
        if fault["repaired_after"] is None:
            line += "; not repaired when the run ended"
        else:
            line += f"; repaired after {fault['repaired_after']:g} s"
        lines.append(line)
    if summary["unexplained"]:
        lines.append(f"UNEXPLAINED missing deliveries: {summary['unexplained']:,.0f}")
    if summary["newcomer_deliveries"]:
        count = summary["newcomer_deliveries"]
        lines.append(f"deliveries at nodes that weren't there when it was published: {count:,.0f}")
    if summary["repeated_deliveries"]:
        lines.append(
            f"messages delivered again after a restart: {summary['repeated_deliveries']:,.0f}"
        )
    return lines


def mean_of(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The mean of several runs of one scenario, number by number.

    A counter that a run doesn't have is 0 there; what isn't a number (lists, histograms,
    names, a repair that never came) is the first run's.
    """
    return _mean(summaries)  # type: ignore[no-any-return]


def _mean(values: Sequence[Any]) -> Any:
    first = values[0]
    if isinstance(first, Mapping):
        made = {}
        for key in dict.fromkeys(key for value in values for key in value):
            found = [value[key] for value in values if key in value]
            nothing: list[Any] = [{} if isinstance(found[0], Mapping) else 0]
            is_kept = isinstance(found[0], int | float | Mapping)
            made[key] = _mean(found + nothing * (len(values) - len(found)) if is_kept else found)
        return made
    if isinstance(first, list) and first and isinstance(first[0], Mapping):
        return [_mean(entries) for entries in zip(*values, strict=False)]
    if all(isinstance(value, int | float) for value in values):
        return first if len(set(values)) == 1 else sum(values) / len(values)
    return first


def compare(a: Mapping[str, Any], b: Mapping[str, Any], names: tuple[str, str]) -> Table:
    """Two runs, A and B, side by side, phase by phase, with the change from the first to the
    second."""
    table = _table(f"A: {names[0]}\nB: {names[1]}")
    for column in ("phase", "", "A", "B", "change"):
        table.add_column(column, justify="left" if column in ("phase", "") else "right")
    for before, after in zip(a["phases"], b["phases"], strict=False):
        for row, shown in ROWS.items():
            cells = shown(before), shown(after)
            if cells != ("-", "-"):
                table.add_row(before["name"], row, *cells, _change(*cells))
        table.add_section()
    return table


def _change(before: str, after: str) -> str:
    try:
        old, new = float(before.replace(",", "")), float(after.replace(",", ""))
    except ValueError:
        return ""
    if old == new:
        return "="
    return f"{100 * (new / old - 1):+.1f} %" if old else "new"
