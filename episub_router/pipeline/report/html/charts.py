"""The report's charts as Vega-Lite, each as wide as the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Literal

import altair as alt

from episub_router.pipeline.report.model import Drawing, Report, Row, TopicReport

Spec = dict[str, Any]

_HEIGHT = 200
_FIRST = 175
"""Of the timeline, which is on a phone's first screen together with the answer."""
_BASELINE = "#8a8a8a"
_COLOURS = (
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#6a3d9a", "#b15928",
)  # fmt: skip
"""Okabe and Ito's, which people with any colour vision can tell apart, and two more."""


def charts(report: Report) -> dict[str, Spec]:
    """Vega-Lite specifications by the chart's id. Those with nothing to show are left out."""
    makers: dict[str, Callable[[Report], Any]] = {
        "timeline": _timeline,
        "latency": _latency,
        # The first message costs many times what the others do.
        "rmr": lambda report: _by_message(report, "rmr", "RMR", "symlog"),
        "ldh": lambda report: _by_message(report, "ldh", "LDH (hops)", "linear"),
        "degrees": _degrees,
        "proximity": _proximity,
        "load": _load,
    }
    made = {name: chart for name, make in makers.items() if (chart := make(report)) is not None}
    drawn = [topic.drawing for topic in report.topics]
    made |= {f"tree-{n}": _tree(drawing) for n, drawing in enumerate(drawn) if drawing is not None}
    return {name: _finished(chart) for name, chart in made.items()}


def _over(rows: Sequence[Row]) -> Any:
    """A chart of `rows`, without a mark yet. Altair's own types are of little use here."""
    return alt.Chart(alt.InlineData(values=list(rows)))


def _finished(chart: Any) -> Spec:
    spec: Spec = (
        chart.properties(width="container")
        .configure(font="system-ui, sans-serif", autosize={"type": "fit-x", "contains": "padding"})
        .configure_view(stroke=None)
        .configure_axis(gridColor="#e4e4e4", labelFontSize=12, titleFontSize=12)
        .configure_legend(orient="top", direction="vertical", labelLimit=320, labelFontSize=12)
        .to_dict()
    )
    return spec


def _colour(report: Report) -> alt.Color:
    first = len(report.baseline.topics) if report.baseline else 0
    return _scale([topic.label for topic in report.topics], first)


def _scale(labels: Sequence[str], first: int) -> alt.Color:
    """A colour for each label, the baseline's for the `first` ones."""
    colours = [
        _BASELINE if place < first else _COLOURS[(place - first) % len(_COLOURS)]
        for place in range(len(labels))
    ]
    return alt.Color("run:N", title=None).scale(domain=labels, range=colours)


def _rows(report: Report, rows_of: Callable[[TopicReport], Sequence[Row]]) -> list[Row]:
    return [{"run": topic.label, **row} for topic in report.topics for row in rows_of(topic)]


def _latency(report: Report) -> Any:
    def rows_of(topic: TopicReport) -> list[Row]:
        # The logarithm has no place for less; the notes say how many latencies are negative.
        return [{"ms": max(ms, 1), "share": share} for ms, share in topic.latencies]

    rows = _rows(report, rows_of)
    if not rows:
        return None
    deadline = report.deadline * 1000
    lines = _over(rows).mark_line(interpolate="step-after", clip=True)
    line = _over([{"ms": deadline, "text": f"deadline {report.deadline:g} s"}])
    return alt.layer(
        lines.encode(
            x=alt.X("ms:Q", title="latency (ms, logarithmic)").scale(type="log"),
            y=alt.Y("share:Q", title="share of the deliveries")
            .axis(format="%")
            .scale(domain=[0, 1]),
            color=_colour(report),
            tooltip=["run:N", "ms:Q", alt.Tooltip("share:Q", format=".2%")],
        ),
        line.mark_rule(color="#b00020", strokeDash=[6, 4]).encode(x="ms:Q"),
        line.mark_text(align="right", dx=-4, color="#b00020").encode(
            x="ms:Q", y=alt.datum(0.06), text="text:N"
        ),
    ).properties(height=_HEIGHT)


_FAULT_COLOURS = {"cut": "#d55e00", "stopped": "#cc79a7", "down": "#6a3d9a"}


def _timeline(report: Report) -> Any:
    """How late each message was, and whether it got to all, with faults as bands."""
    rows = _rows(
        report,
        lambda topic: [
            {
                "after": row["after"],
                "ms": max((row["latency_p99"] or 0) / 1e6, 1),
                "reached": row["reliability"],
                "lost": row["reliability"] < 1,
            }
            for row in topic.messages
            if row["latency_p99"] is not None or row["reliability"] < 1
        ],
    )
    if not rows:
        return None
    last = max(row["after"] for row in rows)
    bands = [
        {
            "run": run.name,
            "fault": fault["cause"],
            "after": fault["after"],
            "until": last if fault["until"] is None else fault["until"],
            "peers": fault["count"],
        }
        for run in report.all_runs
        for fault in run.faults
    ]
    after = alt.X("after:Q", title="since the run began (s)")
    y = alt.Y("ms:Q", title="p99 of a message (ms, logarithmic)").scale(type="log")
    tooltip = ["run:N", "after:Q", "ms:Q", alt.Tooltip("reached:Q", format=".2%")]
    lines = _over(rows).mark_line(strokeWidth=1.2).encode(x=after, y=y, color=_colour(report))
    lost = _over([row for row in rows if row["lost"]]).mark_point(
        shape="cross", size=40, color="#b00020", filled=True
    )
    points = _over(rows).mark_point(size=12, filled=True, opacity=1)
    layers = [
        lines,
        points.encode(x=after, y=y, color=_colour(report).legend(None), tooltip=tooltip),
        lost.encode(x=after, y=y, tooltip=tooltip),
        _over([{"ms": report.deadline * 1000}]).mark_rule(color="#b00020", strokeDash=[6, 4])
        .encode(y="ms:Q"),
    ]  # fmt: skip
    if bands:
        kinds = [kind for kind in _FAULT_COLOURS if any(band["fault"] == kind for band in bands)]
        colours = alt.Color("fault:N", title=None).scale(
            domain=kinds, range=[_FAULT_COLOURS[kind] for kind in kinds]
        )
        said = ["run:N", "fault:N", "peers:Q", *(alt.Tooltip(f"{at}:Q", format=".1f")
                                                 for at in ("after", "until"))]  # fmt: skip
        band = _over(bands).mark_rect(opacity=0.22)
        layers.insert(0, band.encode(x=after, x2="until:Q", color=colours, tooltip=said))
    # Those that a run's own record tells of.
    recorded = _rows(
        report,
        lambda topic: [
            {"after": fault["after"]}
            for fault in topic.faults
            if fault["ending"] not in _FAULT_COLOURS
        ],
    )
    if recorded:
        rule = _over(recorded).mark_rule(color="#b00020", strokeDash=[2, 3])
        layers.append(rule.encode(x=after))
    return alt.layer(*layers).resolve_scale(color="independent").properties(height=_FIRST)


def _by_message(report: Report, name: str, title: str, scale: Literal["linear", "symlog"]) -> Any:
    rows = _rows(
        report,
        lambda topic: [{"index": row["index"], "value": row[name]} for row in topic.messages],
    )
    if not any(row["value"] is not None for row in rows):
        return None
    return (
        _over(rows)
        .mark_line(point=alt.OverlayMarkDef(size=14))
        .encode(
            x=alt.X("index:Q", title="message").axis(format="d", values=_ticks(rows, "index")),
            y=alt.Y("value:Q", title=title + (", logarithmic" if scale == "symlog" else "")).scale(
                type=scale
            ),
            color=_colour(report),
            tooltip=["run:N", "index:Q", alt.Tooltip("value:Q", title=title)],
        )
        .properties(height=_HEIGHT)
    )


def _degrees(report: Report) -> Any:
    rows = _rows(
        report,
        lambda topic: [
            {"degree": degree, "peers": peers / sum(counts), "kind": kind}
            for kind, counts in topic.degrees.items()
            if kind in ("active", "eager")
            for degree, peers in enumerate(counts)
            if peers
        ],
    )
    if not rows:
        return None
    x = alt.X("degree:Q", title="links of a peer").axis(format="d", values=_ticks(rows, "degree"))
    y = alt.Y("peers:Q", title="share of the peers").axis(format="%")
    tooltip = ["run:N", "kind:N", "degree:Q", alt.Tooltip("peers:Q", format=".1%")]
    # Apart, since a line that has points is drawn in its legend as one of them.
    lines = _over(rows).mark_line(strokeWidth=1.5).encode(
        x=x, y=y, color=_colour(report),
        strokeDash=alt.StrokeDash("kind:N", title=None).legend(symbolSize=400),
    )  # fmt: skip
    points = _over(rows).mark_point(size=36, filled=True, opacity=1)
    return alt.layer(
        lines, points.encode(x=x, y=y, color=_colour(report), tooltip=tooltip)
    ).properties(height=_HEIGHT)


def _ticks(rows: Sequence[Row], name: str) -> list[int]:
    """Whole numbers for the axis of a column of them: Vega's would be parts of them, rounded."""
    values = [row[name] for row in rows]
    least, most = min(values), max(values)
    steps = (step * 10**power for power in count() for step in (1, 2, 5))
    step = next(step for step in steps if most - least <= 10 * step)
    return list(range(-(-least // step) * step, most + 1, step))


def _proximity(report: Report) -> Any:
    def rows_of(topic: TopicReport) -> list[Row]:
        return [
            {"after": look["after"], "ratio": look["proximity_ratio"]}
            for look in topic.overlay
            if look["kind"] == "active" and look["proximity_ratio"] is not None
        ]

    rows = _rows(report, rows_of)
    if not rows:
        return None
    return (
        _over(rows)
        .mark_line(point=alt.OverlayMarkDef(size=14))
        .encode(
            x=alt.X("after:Q", title="since the run began (s)"),
            y=alt.Y("ratio:Q", title="proximity ratio").scale(zero=True),
            color=_colour(report),
            tooltip=["run:N", "after:Q", "ratio:Q"],
        )
        .properties(height=_HEIGHT)
    )


def _load(report: Report) -> Any:
    runs = report.all_runs
    labels = [run.topics[0].label if len(run.topics) == 1 else run.name for run in runs]
    rows = [
        {"run": label, "share": share, "messages": messages, "bytes": size}
        for label, run in zip(labels, runs, strict=True)
        for share, messages, size in run.load
    ]
    if not any(row["messages"] for row in rows):
        return None
    return (
        _over(rows)
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("share:Q", title="peers, the busiest first").axis(format="%"),
            y=alt.Y("messages:Q", title="messages sent"),
            color=_scale(labels, 1 if report.baseline else 0),
            tooltip=["run:N", "messages:Q", "bytes:Q"],
        )
        .properties(height=_HEIGHT)
    )


def _tree(drawing: Drawing) -> Any:
    def lines(pairs: Sequence[tuple[int, int]]) -> Any:
        ends = [
            dict(zip(("x", "y", "x2", "y2"), (*drawing.places[a], *drawing.places[b]), strict=True))
            for a, b in pairs
        ]
        return _over(ends)

    hidden = alt.Scale(domain=[-1.08, 1.08], nice=False)
    x, y = alt.X("x:Q", axis=None, scale=hidden), alt.Y("y:Q", axis=None, scale=hidden)
    peers = [
        {"peer": peer, "x": place[0], "y": place[1], "what": _what(depth), "depth": depth}
        for peer, place, depth in zip(drawing.peers, drawing.places, drawing.depths, strict=True)
    ]
    kinds, colours = ("publisher", "peer", "not reached from it"), ("#d55e00", "#0072b2", "#8a8a8a")
    return alt.layer(
        lines(drawing.overlay)
        .mark_rule(color="#bdbdbd", strokeWidth=0.7)
        .encode(x=x, y=y, x2="x2:Q", y2="y2:Q"),
        lines(drawing.tree)
        .mark_rule(color="#0072b2", strokeWidth=1.6)
        .encode(x=x, y=y, x2="x2:Q", y2="y2:Q"),
        _over(peers)
        .mark_circle(size=50, opacity=1)
        .encode(
            x=x,
            y=y,
            color=alt.Color("what:N", title=None).scale(domain=kinds, range=colours),
            tooltip=["peer:N", alt.Tooltip("depth:Q", title="hops")],
        ),
    ).properties(height=360)


def _what(depth: int | None) -> str:
    return "not reached from it" if depth is None else "peer" if depth else "publisher"
