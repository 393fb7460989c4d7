"""A run as one HTML file: latencies and bytes over time."""

from __future__ import annotations

from collections import Counter
from html import escape
from typing import Any

import altair as alt

from episub_router.pipeline.report.html.document import document
from interop.charts import STYLE, Row, finished, over, table, thinned
from interop.shadow.reading import Outcome
from interop.shadow.scenario import Plan

_POINTS = 4000
"""Deliveries that are drawn; with more of them, each nth."""

_TITLES = {
    "deliveries": "Deliveries: when a message was published, how long it took",
    "shares": "Share of the deliveries by latency, and by the shortest way",
    "sent": "Bytes that all hosts sent, by the second",
}


def page(plan: Plan, outcome: Outcome, result: Row) -> str:
    """The file's text."""
    specs = {
        "deliveries": finished(_deliveries(plan, outcome)),
        "shares": finished(_shares(plan, outcome)),
        "sent": finished(_sent(plan, outcome)),
    }
    title = f"{plan.scenario.name}, seed {plan.seed}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{plan.hosts} hosts ({escape(', '.join(plan.nodes.kinds))}) in Shadow.</p>",
        *(f'<h2>{_TITLES[name]}</h2><div class="chart" id="{name}"></div>' for name in specs),
        *(table(row) for row in (*result["rows"], *result["simulated"])),
        table({**result["traffic"], **result["cost"]}),
    ]
    return document(title, STYLE, "\n".join(parts), specs)


def _latencies(plan: Plan, outcome: Outcome) -> list[Row]:
    made = []
    for time, number, host in outcome.receipts():
        message = plan.publishings[number]
        if number in plan.measured and host != message.host:
            latency = time - outcome.published.get(number, message.time)
            shortest = plan.shortest(message, host)
            made.append(
                {
                    "time": round(message.time, 2),
                    "ms": max(1.0, round(latency * 1000, 1)),
                    "shortest": max(1.0, round(shortest * 1000, 1)),
                    "source": message.host,
                    "host": host,
                    "kind": plan.kind(host),
                    "size": message.size,
                }
            )
    return made


def _deliveries(plan: Plan, outcome: Outcome) -> Any:
    return (
        over(thinned(_latencies(plan, outcome), _POINTS))
        .mark_circle(size=8, opacity=0.5)
        .encode(
            x=alt.X("time:Q", title="s").scale(zero=False),
            y=alt.Y("ms:Q", title="ms").scale(type="log"),
            color=alt.Color("kind:N"),
            tooltip=["source:N", "host:N", "ms:Q", "size:Q"],
        )
    )


def _shares(plan: Plan, outcome: Outcome) -> Any:
    found = _latencies(plan, outcome)
    rows = []
    for name, key in (("delivered", "ms"), ("shortest way", "shortest")):
        ordered = sorted(row[key] for row in found)
        rows += [
            {"ms": value, "share": round((place + 1) / len(ordered), 4), "of": name}
            for place, value in list(enumerate(ordered))[:: max(1, len(ordered) // 500)]
        ]
    return (
        over(rows)
        .mark_line()
        .encode(
            x=alt.X("ms:Q", title="ms").scale(type="log"),
            y=alt.Y("share:Q", title="share"),
            color=alt.Color("of:N", title=None),
        )
    )


def _sent(plan: Plan, outcome: Outcome) -> Any:
    total: Counter[int] = Counter()
    for host in outcome.sent:
        total.update(host)
    rows = [{"time": second, "kB": round(size / 1000, 1)} for second, size in sorted(total.items())]
    return (
        over(rows)
        .mark_line(interpolate="step-after")
        .encode(x=alt.X("time:Q", title="s"), y=alt.Y("kB:Q"))
    )
