"""A run as one HTML file: faults, deliveries, latency, neighbours and processes over time."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import altair as alt

from episub_router.pipeline.report.html.document import document
from interop.charts import STYLE, Row, finished, over, table, thinned
from interop.testbed.checker.latency import latencies, percentile
from interop.testbed.checker.violation import Violation
from interop.testbed.history.records import History, Neighbors
from interop.testbed.report.summary import Summary

_POINTS = 4000
"""Deliveries that are drawn; with more of them, each nth."""
_READINGS = 3000
"""Readings of processes that are drawn."""
_LISTED = 100
"""Violations that are listed."""
_BINS = 100
"""Times at which percentiles are shown."""
_LANES = 3
"""Faults whose names stand below each other: they may begin together."""
_LANE = 12
"""Pixels between two of them."""
_MIB = 2**20


def page(history: History, summary: Summary, violations: Sequence[Violation]) -> str:
    """The file's text."""
    specs = charts(history)
    verdict = f"{len(violations)} violations" if violations else "No violation"
    parts = [
        f"<h1>{escape(history.name)}</h1>",
        f'<p class="{"bad" if violations else "good"}">{verdict}. {history.hosts} hosts '
        f"({escape(', '.join(sorted(set(history.kinds))))}), {history.duration:g} s.</p>",
        *(f'<h2>{_TITLES[name]}</h2><div class="chart" id="{name}"></div>' for name in specs),
        table(summary.as_json()),
        "<h2>Faults</h2><ul>",
        *(f"<li>{escape(fault.text())}</li>" for fault in history.faults),
        "</ul><h2>Violations</h2><ul>",
        *(f"<li>{escape(str(violation))}</li>" for violation in violations[:_LISTED]),
        "</ul>",
    ]
    return document(history.name, STYLE, "\n".join(parts), specs)


def charts(history: History) -> dict[str, Row]:
    """Vega-Lite specifications by name."""
    return {
        name: finished(alt.layer(*_bands(history), chart))
        for name, chart in (
            ("deliveries", _deliveries(history)),
            ("latency", _latency(history)),
            ("neighbors", _neighbors(history)),
            ("memory", _usage(history, "memory", "MiB resident")),
            ("descriptors", _usage(history, "descriptors", "descriptors")),
        )
    }


_TITLES = {
    "deliveries": "Faults over deliveries: when a message was published, how long it took",
    "latency": "Latency: p50 and p99",
    "neighbors": "Neighbours of each host",
    "memory": "Memory of each process",
    "descriptors": "Descriptors of each process",
}


def _time(history: History) -> Any:
    return alt.X("time:Q", title="s").scale(domain=[0, round(history.duration, 1)])


def _bands(history: History) -> list[Any]:
    """A shade for each fault, and its name."""
    rows = [
        {
            "time": round(fault.at, 2),
            "end": round(fault.end, 2),
            "kind": str(fault.kind),
            "text": fault.text(),
        }
        for fault in history.faults
    ]
    if not rows:
        return []
    shade = (
        over(rows)
        .mark_rect(opacity=0.15, color="#d55e00")
        .encode(x=_time(history), x2="end:Q", tooltip="text:N")
    )
    names = [
        over(rows[lane::_LANES])
        .mark_text(align="left", baseline="top", dx=2, fontSize=10)
        .encode(x=_time(history), y=alt.value(lane * _LANE), text="kind:N")
        for lane in range(min(_LANES, len(rows)))
    ]
    return [shade, *names]


def _deliveries(history: History) -> Any:
    rows = [
        {
            "time": round(found.published, 2),
            "ms": max(1.0, round(found.seconds * 1000, 1)),
            "host": found.host,
            "source": found.source,
        }
        for found in latencies(history)
    ]
    return (
        over(thinned(rows, _POINTS))
        .mark_circle(size=8, opacity=0.5, color="#0072b2")
        .encode(
            x=_time(history),
            y=alt.Y("ms:Q", title="ms").scale(type="log"),
            tooltip=["source:N", "host:N", "ms:Q"],
        )
    )


def _latency(history: History) -> Any:
    width = max(history.duration / _BINS, 1.0)
    bins: dict[int, list[float]] = {}
    for found in latencies(history):
        bins.setdefault(int(found.published / width), []).append(found.seconds)
    rows = [
        {
            "time": round(place * width, 2),
            "ms": max(1.0, round(percentile(values, share) * 1000, 1)),
            "share": name,
        }
        for place, values in sorted(bins.items())
        for name, share in (("p50", 0.5), ("p99", 0.99))
    ]
    return (
        over(rows)
        .mark_line(interpolate="step-after")
        .encode(
            x=_time(history),
            y=alt.Y("ms:Q", title="ms").scale(type="log"),
            color=alt.Color("share:N", title=None),
        )
    )


def _neighbors(history: History) -> Any:
    rows = [
        {"time": round(event.time, 2), "neighbours": len(event.hosts), "host": event.host}
        for event in history.events
        if isinstance(event, Neighbors)
    ]
    return (
        over(rows)
        .mark_line(interpolate="step-after", opacity=0.6)
        .encode(
            x=_time(history),
            y=alt.Y("neighbours:Q"),
            color=alt.Color("host:N", legend=None),
            tooltip=["host:N", "neighbours:Q"],
        )
    )


def _usage(history: History, name: str, title: str) -> Any:
    rows = [
        {
            "time": round(usage.time, 1),
            "host": f"{usage.host}.{usage.session}",
            "memory": round(usage.memory / _MIB, 1),
            "descriptors": usage.descriptors,
        }
        for usage in history.usage
    ]
    return (
        over(thinned(rows, _READINGS))
        .mark_line(opacity=0.6)
        .encode(
            x=_time(history),
            y=alt.Y(f"{name}:Q", title=title).scale(zero=False),
            color=alt.Color("host:N", legend=None),
            tooltip=["host:N", f"{name}:Q"],
        )
    )
