"""Tables of the results, as the documents show them: labels, figures and how they are written.

A figure is a string by name, for a label: `figure("trees / one source / p99_uniform")`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cache
from itertools import groupby
from statistics import mean
from typing import Any

from tests.docs import marked
from tests.results.files import Result, Row, read

Figures = dict[str, str]
Lines = dict[str, Figures]
"""The figures of a table by its lines' labels."""

ABSENT = "–"
_LATENCIES = ("uniform", "plane")


@dataclass(frozen=True, slots=True)
class Table:
    """One table: the results it is of, the titles of its columns, and what their cells have."""

    results: Sequence[str]
    first: str
    """The title of the first column, which has the labels."""
    columns: Mapping[str, str]
    """The others by title: text around names of figures."""
    lines: Callable[[], Lines]

    def render(self) -> str:
        """Markdown, below a line that says what it is of."""
        rows = [
            [label, *(cell.format_map(_Figures(figures)) for cell in self.columns.values())]
            for label, figures in self.lines().items()
        ]
        if not rows:
            return provenance(self.results)
        return f"{provenance(self.results)}\n\n{marked.table((self.first, *self.columns), rows)}"


class _Figures(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return ABSENT


def figure(path: str) -> str:
    """The figure at "table / label / name"; KeyError where there is none."""
    table, label, name = (part.strip() for part in path.split(" / "))
    try:
        return TABLES[table].lines()[label][name]
    except KeyError:
        raise KeyError(f"no result has the figure {path!r}") from None


OLDER = "; **older than the code**"


def provenance(names: Iterable[str]) -> str:
    """Commit, date, machine and seeds of results; what several share stands once."""
    found = [result for name in names if (result := read(name))]
    if not found:
        return "Not measured yet."
    machines = [_machine(result) for result in found]
    shared = f" On {machines[0]}." if len(set(machines)) == 1 else ""
    parts = []
    for what, of in groupby(found, lambda result: _made(result, told=not shared)):
        parts.append(f"{', '.join(f'`{result.name}`' for result in of)}: {what}.")
    return " ".join(parts) + shared


def _machine(result: Result) -> str:
    machine = result.machine
    parts = [
        f"{machine.get('cpu', '')}, {machine.get('cores', '?')} cores"
        + (f", {machine['ram_gib']} GiB" if "ram_gib" in machine else ""),
        f"Python {machine['python']}" if "python" in machine else "",
        machine.get("core", ""),
    ]
    return ", ".join(part for part in parts if part)


def _made(result: Result, *, told: bool) -> str:
    """How a result was made; `told`: with its machine."""
    nodes = {row["nodes"] for row in result.rows if "nodes" in row and "phase" in row}
    parts = [
        f"{nodes.pop():,} nodes" if len(nodes) == 1 else "",
        _seeds(result.seeds),
        f"commit {_short(result.commit)}, {day(result.date)}",
        _machine(result) if told else "",
        result.note,
    ]
    gossipsub = _short(result.gossipsub.get("commit", result.commit))
    if gossipsub != _short(result.commit):
        parts.append(f"gossipsub's rows of commit {gossipsub}")
    if unexplained := sum(row.get("unexplained", 0) for row in result.rows):
        parts.append(f"**{unexplained:,.0f} deliveries are missing without an explanation**")
    older = OLDER if not _is_current(result.name) else ""
    return ", ".join(part for part in parts if part) + older


def _short(commit: str) -> str:
    """Git abbreviates to as many digits as a repository needs."""
    digits, *rest = commit.split(" ", 1)
    return " ".join([digits[:7], *rest])


@cache
def _is_current(name: str) -> bool:
    result = read(name)
    return result is not None and result.is_current()


def _seeds(seeds: Sequence[int]) -> str:
    if not seeds:
        return ""
    if len(seeds) == 1:
        return f"seed {seeds[0]}"
    return f"seeds {seeds[0]} {'and' if len(seeds) == 2 else 'to'} {seeds[-1]}"


def day(text: str) -> str:
    """2026-11-25 as 25 November 2026."""
    found = date.fromisoformat(text)
    return f"{found.day} {found:%B %Y}"


# Rows, and how numbers are written.


@cache
def _rows(name: str) -> Sequence[Row]:
    result = read(name)
    return result.rows if result else ()


def rows_of(name: str, **wanted: Any) -> Iterator[Row]:
    """The rows of a result with these values; none where it was never made."""
    for row in _rows(name):
        if all(row.get(key) == value for key, value in wanted.items()):
            yield row


def row_of(name: str, **wanted: Any) -> Row:
    return next(rows_of(name, **wanted), {})


_WRITTEN: dict[str, Callable[[float], str]] = {
    "payloads": "{:.3f}".format,
    "mb": "{:.3g}".format,
    **{
        name: lambda share: f"{100 * share:.5g}"
        for name in ("delivered", "before delivered", "under delivered", "after delivered")
    },
    "near_links_inside_300_s": lambda share: f"{100 * share:.0f} %",
    "hostile_share": lambda share: f"{100 * share:.0f}",
    **{
        name: lambda share: f"{100 * share:.1f}"
        for name in ("near_target", "at_target", "frozen_reach", "idle_cpu")
    },
    # Shares of a core in windows of time, and counters over those that were published.
    **{
        name: lambda share: f"{100 * share:.2f}"
        for name in ("0-20 s", "60-120 s", "300-600 s", "600-900 s")
    },
    **dict.fromkeys(("deliver", "connect", "publish", "graft", "iwant"), "{:.3f}".format),
}
"""By name; others are written by their size."""

_ROUTERS = {
    "gossipsub-defaults": "GossipSub, defaults",
    "gossipsub-bounded": "GossipSub, bounded",
    "gossipsub-joining": "GossipSub, linked over 30 s",
    "gossipsub": "GossipSub",
    "episub": "Episub",
    "half-and-half-defaults": "half of each, defaults",
    "half-and-half-bounded": "half of each, bounded",
    "pieces": "Episub, in pieces",
    "node": "12 processes of `episub node`, a line",
    "whole": "Episub, whole",
}


def written(name: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    if name in _WRITTEN:
        return _WRITTEN[name](value)
    if value == int(value) or abs(value) >= 20:
        return f"{value or 0:,.0f}"  # never -0
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.3g}"


def figures_of(row: Row) -> Figures:
    """A row's values as they are written, and what follows from them."""
    more = {"router": _ROUTERS.get(row["router"], row["router"])} if "router" in row else {}
    if "reliability" in row:
        more["delivered"] = row["reliability"]
    if "bytes" in row:
        more["mb"] = row["bytes"] / 1e6
    if "size" in row:
        more["size_mb"] = row["size"] // 10**6
    return {
        name: written(name, value)
        for name, value in {**row, **more}.items()
        if isinstance(value, str | int | float)
    }


def ratio(one: float | None, other: float | None) -> str:
    return f"{one / other:.2f}x" if one is not None and other else ABSENT


# Episub beside gossipsub, with uniform latencies and on a plane.

_COMPARED = {"payloads": "payloads", "p50": "p50_ms", "p99": "p99_ms", "control": "control_bytes"}
_HEADS = ("payloads a delivery", "p50, ms", "p99, ms", "control bytes a delivery")


def compared(lines: Sequence[tuple[str, str, str, str]]) -> Lines:
    """Of (label, result, variant without the router, phase); a result that isn't there is left out.

    Names are "p99_plane", "p99_ratio_plane" and "p99_gossipsub_plane" and so on.
    """
    found: Lines = {}
    for label, result, variant, phase in lines:
        figures: Figures = {}
        for latencies in _LATENCIES:
            name = variant.format(latencies)
            own = row_of(result, variant=f"episub, {name}", phase=phase)
            other = row_of(
                result, variant=f"gossipsub, {name.partition(', noticed')[0]}", phase=phase
            )
            for short, key in _COMPARED.items():
                if key in own:
                    figures[f"{short}_{latencies}"] = written(short, own[key])
                    figures[f"{short}_ratio_{latencies}"] = ratio(own[key], other.get(key))
                if key in other:
                    figures[f"{short}_gossipsub_{latencies}"] = written(short, other[key])
        if figures:
            found[label] = figures
    return found


def _compared(first: str, *lines: tuple[str, str, str, str]) -> Table:
    columns = {
        title: ", ".join(
            f"{{{name}_{each}}}" + (f" ({{{name}_ratio_{each}}})" if name != "payloads" else "")
            for each in _LATENCIES
        )
        for title, name in zip(_HEADS, _COMPARED, strict=True)
    }
    results = dict.fromkeys(result for _, result, _, _ in lines)
    return Table([*results], first, columns, lambda: compared(lines))


# Other tables.


def _plain(result: str, label: str, first: str, columns: Mapping[str, str], **wanted: Any) -> Table:
    """A line for each row with these values, with a label made of its figures."""

    def lines() -> Lines:
        found = map(figures_of, rows_of(result, **wanted))
        return {label.format_map(_Figures(figures)): figures for figures in found}

    return Table((result,), first, columns, lines)


def _overlays() -> Lines:
    chosen = [
        ("join-storm", "overlays", {"scenario": "join-storm"}),
        ("partition-heal, cut", "overlays", {"scenario": "partition-heal", "phase": "cut"}),
        ("… healed", "overlays", {"scenario": "partition-heal", "phase": "healed"}),
        ("… a minute later", "overlays", {"scenario": "partition-heal", "phase": "a minute later"}),
        ("nat", "overlays", {"scenario": "nat"}),
        ("churn", "overlays", {"scenario": "churn", "phase": "churn"}),
        ("sites", "sites", {"variant": "4 random + 4 near"}),
        ("sites, near links alone", "sites", {"variant": "8 near"}),
    ]
    found = {label: row_of(result, **wanted) for label, result, wanted in chosen}
    return {label: figures_of(row) for label, row in found.items() if row}


def _failures() -> Lines:
    found = {}
    for share in (20, 40, 60, 80, 90, 95):
        rows = {row["phase"]: row for row in rows_of("hyparview-failures", variant=f"{share} %")}
        if rows:
            own = {name: written("delivered", row["reliability"]) for name, row in rows.items()}
            found[f"{share} %"] = figures_of(rows["repaired"]) | own
    return found


_SIZED = re.compile(r"episub-(?P<latency>\w+)-(?P<size>\d+[KM]B?)-(?P<uplink>\w+)(?P<more>, .+)?")


def _large() -> Lines:
    found: Lines = {}
    for row in rows_of("large", phase="steady"):
        match = _SIZED.fullmatch(row["variant"])
        if match is None:
            continue
        figures = figures_of(row)
        first = row_of("large", variant=row["variant"], phase="first")
        figures |= {f"first_{name}": text for name, text in figures_of(first).items()}
        for router in ("gossipsub", "fragments"):
            name = row["variant"].replace("episub", router, 1)
            other = row_of("large", variant=name, phase="steady")
            figures |= {f"{router}_{key}": text for key, text in figures_of(other).items()}
            if "p99_ms" in other and not other.get("missing"):
                p50, p99 = (ratio(row[key], other[key]) for key in ("p50_ms", "p99_ms"))
                figures[f"{router}_ratio"] = f"{p50}, {p99}"
        uplink = "10 to 1,000" if match["uplink"] == "mixed" else match["uplink"]
        size = match["size"].replace("M", " M").replace("128K", "128 KiB")
        found[f"{size}, {uplink}, {match['latency']}{match['more'] or ''}"] = figures
    return found


def _hostile() -> Lines:
    found: Lines = {}
    attacks = [row["variant"] for row in rows_of("hostile", phase="before", router="episub")]
    for variant in attacks:
        attack = variant.partition(", ")[2]
        figures: Figures = {}
        for router in ("episub", "gossipsub"):
            for phase, short in (("first minute", "first"), ("second minute", "second")):
                row = row_of("hostile", variant=f"{router}, {attack}", phase=phase)
                # "random contacts, censor" has a "random contacts, none".
                group = f"{router}, {attack.partition(', ')[0]}, none"
                usual = row_of("hostile", variant=group, phase=phase) or row_of(
                    "hostile", variant=f"{router}, none", phase=phase
                )
                if not row:
                    continue
                own = {
                    "p99": written("p99_ms", row["p99_ms"]),
                    "times": ratio(row["p99_ms"], usual.get("p99_ms")),
                    "lost": f"{100 * (1 - row['reliability']):.3g}",
                }
                own |= figures_of({key: row[key] for key in _LINKS if key in row})
                prefix = "" if router == "episub" else f"{router}_"
                figures |= {f"{prefix}{name}_{short}": text for name, text in own.items()}
        found[attack] = figures
    return found


_LINKS = ("hostile_share", "honest_links", "eclipsed")


def _hosts() -> Lines:
    found: Lines = {}
    for result in ("hosts", "hosts-five", "half-and-half"):
        for row in rows_of(result):
            usual = row_of(result, router="gossipsub-defaults", hosts=row["hosts"])
            bounded = row_of(result, router="gossipsub-bounded", hosts=row["hosts"])
            sources = "1 source" if row["sources"] == 1 else f"{row['sources']} sources"
            found[f"{row['hosts']} hosts, {sources}: {_ROUTERS[row['router']]}"] = figures_of(
                row
            ) | {
                "cpu_ratio": ratio(row["cpu_ms"], usual.get("cpu_ms")),
                "cpu_ratio_bounded": ratio(row["cpu_ms"], bounded.get("cpu_ms")),
                "bytes_ratio": ratio(row["bytes"], usual.get("bytes")),
                "copies": f"{row['payloads']:.2f}",
            }
    return found


_MODELS = {"go": "gossipsub", "episub-go": "episub", "episub": "episub"}
"""The simulator's router of the same kind; py-libp2p's GossipSub differs from go's, the model."""


def _simulated_and_real() -> Lines:
    """Real nodes' figures, with the simulator's for the same scenario behind them."""
    found: Lines = {}
    for row in rows_of("shadow"):
        same = {name: row[name] for name in ("scenario", "hosts", "of")}
        kind = f"simulator, {_MODELS.get(row['kind'])}"
        if model := row_of("shadow", kind=kind, **same):
            real, simulated = figures_of(row), figures_of(model)
            found[f"{row['scenario']}: {row['kind']}"] = {
                name: f"{real[name]} / {simulated[name]}"
                for name in ("p50", "p99", "duplicates", "of_payload")
                if name in real and name in simulated
            } | {"ratio": ratio(row["p99"], model["p99"])}
    return found


def _sds_bytes() -> Lines:
    found: Lines = {}
    for every, of in groupby(rows_of("sds-bytes"), lambda row: row["every_s"]):
        by_loss: dict[float, list[float]] = {}
        for row in of:
            by_loss.setdefault(row["loss"], []).append(row["bytes"])
        found[f"{every:g} s"] = {
            f"loss_{100 * loss:.0f}": f"{mean(sizes):.0f} ({min(sizes):.0f} to {max(sizes):.0f})"
            for loss, sizes in by_loss.items()
        }
    return found


def _sds_catchup() -> Lines:
    found = [figures_of(row) for row in rows_of("sds-catchup")]
    labels = {
        "hole_in": "a hole in {hole_in} messages",
        "delay_ms": "{delay_ms} ms, {mbit_s} Mbit/s",
        "joins": "real hosts, {messages} messages: {joins}",
    }
    return {
        label.format_map(own): own for own in found for key, label in labels.items() if key in own
    }


def _choke() -> Lines:
    found: Lines = {}
    for row in rows_of("choke", phase="steady"):
        crashed = row_of("choke", variant=row["variant"], phase="after the crash")
        later = {f"{name}_crash": text for name, text in figures_of(crashed).items()}
        found[row["variant"]] = figures_of(row) | later
    return found


TABLES: dict[str, Table] = {
    "trees": _compared(
        "workload",
        ("one source", "headline-one", "{}, one source", "steady"),
        ("five sources", "headline-five", "{}, five sources", "steady"),
        ("fifty sources", "headline-fifty", "{}, fifty sources", "steady"),
        ("ten messages each of new sources", "new-sources", "{}, five in a silent topic",
         "new sources"),
        ("chat: 100 nodes, three messages each", "chat", "{}", "chat"),
        ("fifty sources at the same moment", "same-moment", "{}", "same moment"),
        ("bursts of 20 messages", "bursts", "{}", "bursts"),
    ),
    "churn": _compared(
        "sources",
        ("one source", "churn-trees", "{}, one source", "churn"),
        ("five sources", "churn-trees", "{}, five sources", "churn"),
    ),
    "crash": _compared(
        "since the crash",
        ("before", "crash", "{}", "before"),
        ("the next second", "crash", "{}", "the next second"),
        ("the two seconds after", "crash", "{}", "the two seconds after"),
        ("from then on", "crash", "{}", "from then on"),
        ("the next second, noticed after 5 s", "crash", "{}, noticed after 5 s", "the next second"),
    ),
    "loss": _compared(
        "sources",
        ("one source", "lossy-trees", "{}, one source", "steady"),
        ("five sources", "lossy-trees", "{}, five sources", "steady"),
    ),
    "overlays": Table(("overlays", "sites"), "scenario", {
        "delivered, %": "{delivered}", "payloads": "{payloads}", "p99, ms": "{p99_ms}",
        "views within one of their size, %": "{near_target}", "components": "{components}",
    }, _overlays),
    "papers": _plain("hyparview", "{scenario}", "scenario", {
        "views at their size, %": "{at_target}", "path, hops": "{path}",
        "clustering": "{clustering}", "RMR, first": "{rmr_first}", "RMR, last": "{rmr_last}",
    }),
    "failures": Table(("hyparview-failures",), "crash", {
        "a frozen overlay reaches, %": "{frozen_reach}", "delivered at once, %": "{failing}",
        "after repair, %": "{repaired}", "repaired after, s": "{repaired_s}",
    }, _failures),
    "proximity": _plain("proximity", "{variant}", "neighbours", {
        "p50, ms": "{p50_ms}", "p99, ms": "{p99_ms}",
        "RTT of near links, of random pairs'": "{near_proximity}",
    }, phase="tree"),
    "published": _plain("simsub", "{scenario}", "run", {
        "deliveries": "{deliver}", "connections": "{connect}", "sends": "{publish}",
        "GRAFTs": "{graft}", "IWANTs": "{iwant}",
    }, phase="counters"),
    "large": Table(("large",), "size, Mbit/s, latencies", {
        "first, p50 / p99, ms": "{first_p50_ms} / {first_p99_ms}",
        "others, p50 / p99, ms": "{p50_ms} / {p99_ms}", "payloads": "{payloads}",
        "gossipsub, p50 / p99, ms (ratios)":
            "{gossipsub_p50_ms} / {gossipsub_p99_ms} ({gossipsub_ratio})",
        "of fragments'": "{fragments_ratio}",
    }, _large),
    "hostile": Table(("hostile",), "attack", {
        "lost, %": "{lost_second}", "p99, first minute, ms": "{p99_first} ({times_first})",
        "second minute, ms": "{p99_second} ({times_second})",
        "gossipsub, first minute": "{gossipsub_times_first}",
        "second minute": "{gossipsub_times_second}",
    }, _hostile),
    "hosts": Table(("hosts", "hosts-five", "half-and-half"), "hosts, sources: router", {
        "copies": "{copies}", "bytes": "{bytes}", "CPU, ms": "{cpu_ms}",
        "CPU of defaults'": "{cpu_ratio}", "p50 / p99, ms": "{p50_ms} / {p99_ms}",
    }, _hosts),
    "idle": _plain("idle", "{hosts}, {router}", "hosts, router", {
        "four links each after, s": "{linked_s}", "0-20 s": "{0-20 s} %",
        "60-120 s": "{60-120 s} %", "300-600 s": "{300-600 s} %", "600-900 s": "{600-900 s} %",
    }),
    "overload": _plain("overload", "{quota} of a core, {router}", "quota, router", {
        "before, p50 / p99, s": "{before p50} / {before p99}",
        "under the quota": "{under p50} / {under p99}", "after": "{after p50} / {after p99}",
        "delivered, %": "{under delivered}", "recovered after, s": "{recovered_s}",
    }),
    "burst": _plain("burst", "{messages}, {router}", "messages, router", {
        "published, s": "{publish_s}", "last delivery, s": "{last_delivery_s}",
        "fewest at a host": "{fewest}", "CPU, ms a delivery": "{cpu_ms_per_delivery}",
        "MiB": "{rss_mib}",
    }),
    "three-sites": _plain("three-sites", "{router}", "router", {
        "copies between sites, a message": "{crossings}", "copies a delivery": "{payloads}",
        "p50 / p99, ms": "{p50_ms} / {p99_ms}", "CPU, ms a delivery": "{cpu_ms}",
        "near links inside": "{near_links_inside_300_s}",
    }),
    "fuzz": _plain("fuzz", "{frames_of}", "frames of", {
        "damaged frames read": "{frames}", "refused": "{refused}", "MiB at most": "{mib}",
    }),
    "slow-links": _plain("slow-links", "{router}: {size_mb} MB, {uplink} Mbit/s",
                         "router: size, uplinks", {
        "first message, all, s": "{first_s}", "then p50 / all, s": "{p50_s} / {all_s}",
        "copies a delivery": "{copies}", "CPU, ms a delivery": "{cpu_ms}", "MiB": "{mib}",
    }),
    "shadow": _plain("shadow", "{scenario}: {kind}, {of}", "scenario: nodes, size", {
        "delivered": "{deliveries} of {due}", "p50 / p99, ms": "{p50} / {p99}",
        "to 99 %, ms": "{to_99}", "duplicates": "{duplicates}", "sent, of payload": "{of_payload}",
    }),
    "simulated-and-real": Table(("shadow",), "scenario: nodes", {
        "p50, ms": "{p50}", "p99, ms": "{p99}", "p99, ratio": "{ratio}",
        "duplicates": "{duplicates}", "sent, of payload": "{of_payload}",
    }, _simulated_and_real),
    "sds-bytes": Table(("sds-bytes",), "a message every", {
        "no loss": "{loss_0}", "5 % lost": "{loss_5}", "30 % lost": "{loss_30}",
    }, _sds_bytes),
    "sds-catchup": Table(("sds-catchup",), "delay, link", {
        "seconds": "{seconds}", "requests": "{requests}", "MB": "{mb}",
        "resent meanwhile": "{resent}",
    }, _sds_catchup),
    "sds-attacks": _plain("sds-attacks", "{attack}", "attack", {
        "seconds": "{seconds}", "bytes of the attacker to each victim": "{attacker_bytes}",
        "other bytes of a victim": "{victim_bytes}", "ratio": "{ratio}",
        "share of a core": "{cpu_percent} %",
    }),
    "sds-kills": _plain("sds-kills", "{kills}", "kills", {
        "messages": "{messages}", "lost": "{lost}", "delivered twice": "{twice}",
        "out of causal order": "{contradictions}", "seconds": "{seconds}",
    }),
    "sds-vs-js": _plain("sds-vs-js", "{received}", "messages received before", {
        "messages/s": "{ours}", "one by one, messages/s": "{alone}",
        "@waku/sds 0.0.8, messages/s": "{js}", "ratio": "{ratio}",
    }),
    "pipeline": _plain("pipeline", "{engine}, {events}", "engine and events", {
        "seconds": "{seconds}", "CPU, s": "{cpu_s}",
        "decoded and written, events a CPU second": "{bronze_rate}", "GiB at most": "{gib}",
        "a report, s": "{report_s}",
    }),
    "stream": _plain("stream", "{engine}, {events} events in {seconds} s", "stream", {
        "age of answers p50, s": "{age_p50_s}", "p90, s": "{age_p90_s}", "most, s": "{age_max_s}",
        "cores": "{cores}", "late": "{late}",
    }),
    "scale": _plain("scale", "{nodes}", "nodes", {
        "warm-up, s": "{warm_up_s}", "messages, s": "{messages_s}", "events/s": "{events_per_s}",
        "times an empty loop": "{of_empty_loop}", "MiB": "{mib}",
    }),
    "sizes": _plain("sizes", "{nodes}", "nodes", {
        "path, hops": "{path}", "to the farthest": "{eccentricity}",
        "p50 / p99, ms": "{p50_ms} / {p99_ms}", "RMR, first and last": "{rmr_first}, {rmr_last}",
        "control bytes a delivery": "{control_bytes}",
    }),
    "choke": Table(("choke",), "router", {
        "copies": "{payloads}", "p50 / p99, ms": "{p50_ms} / {p99_ms}",
        "control bytes a delivery": "{control_bytes}",
        "copies after 10 % crash": "{payloads_crash}",
        "then p50 / p99, ms": "{p50_ms_crash} / {p99_ms_crash}",
    }, _choke),
    "scale-100k": _plain("scale-100k", "{variant}", "100,000 nodes", {
        "delivered, %": "{delivered}", "payloads": "{payloads}",
        "p50 / p99, ms": "{p50_ms} / {p99_ms}", "control bytes a delivery": "{control_bytes}",
        "components": "{components}",
    }, phase="then"),
}  # fmt: skip
"""By name, in the order of the page."""
